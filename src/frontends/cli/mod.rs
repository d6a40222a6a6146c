//! The command line: one action for scripts and people, a client of [`Control`](crate::control::Control).
//!
//! Standard output carries the result and nothing else, in the format that was asked for; progress,
//! questions and errors go to standard error. The exit code says how it ended ([`exit`]).
//!
//! A verb is a struct with its arguments that implements [`Verb`], in a file of its own, and a line of the
//! table below.

mod act;
pub mod args;
pub mod audit;
pub mod check;
mod columns;
mod delete;
pub mod doctor;
mod drift;
pub mod exit;
mod explain;
pub mod failure;
mod list;
mod order;
pub mod output;
mod plan;
pub mod plan_file;
pub mod plan_view;
mod prune;
mod purge;
mod release;
mod retry;
mod session;
mod show;
pub mod tree;
pub mod wait;
mod watch;

use clap::Subcommand;

pub use exit::Exit;
pub use failure::Failure;
pub use list::{List, What};
pub use prune::Prune;
pub use session::{ReadLine, Session};

use args::Format;

/// A verb that an engine carries out: the one that runs, or one of their own for as long as it takes.
pub trait Verb: Sized {
    /// The action and its object, for messages: `plan network/web`.
    fn tried(&self) -> String;

    /// Its targets, as typed: an engine of this process also serves the sites that they name.
    fn targets(&self) -> &[String] {
        &[]
    }

    /// Whether `-o dot` and `-o mermaid` draw its result.
    fn draws(&self) -> bool {
        false
    }

    fn run(self, session: &mut Session<'_>) -> impl Future<Output = Result<Exit, Failure>>;
}

macro_rules! verbs {
    ($($file:ident::$verb:ident,)*) => {
        /// The verbs that an engine carries out, each with its arguments.
        #[derive(Debug, Subcommand)]
        pub enum EngineVerb {
            $($verb($file::$verb),)*
        }

        impl Verb for EngineVerb {
            fn tried(&self) -> String {
                match self {
                    $(Self::$verb(verb) => verb.tried(),)*
                }
            }

            fn targets(&self) -> &[String] {
                match self {
                    $(Self::$verb(verb) => verb.targets(),)*
                }
            }

            fn draws(&self) -> bool {
                match self {
                    $(Self::$verb(verb) => verb.draws(),)*
                }
            }

            async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
                match self {
                    $(Self::$verb(verb) => verb.run(session).await,)*
                }
            }
        }
    };
}

verbs! {
    plan::Plan,
    delete::Delete,
    list::List,
    show::Show,
    tree::Tree,
    explain::Explain,
    watch::Watch,
    retry::Retry,
    drift::Drift,
    purge::Purge,
    release::Release,
    act::Cancel,
    act::Pause,
    act::Resume,
}

/// Carries out a verb through an engine, and reports a failure on standard error.
pub async fn run(mut session: Session<'_>, verb: impl Verb) -> Exit {
    let tried = verb.tried();
    let done = async {
        if !verb.draws() {
            no_drawing(session.global.output)?;
        }
        verb.run(&mut session).await
    };
    let done = done.await;
    let flushed = session.out.flush().map_err(Failure::from);
    match done.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) => {
            let failure = failure.trying(tried);
            // Standard error is the last place to report; if it is gone too, the exit code remains.
            let _ = failure.write(session.errors());
            failure.exit
        }
    }
}

/// # Errors
/// The format is one for plans.
pub fn no_drawing(format: Format) -> Result<(), Failure> {
    match format {
        Format::Dot | Format::Mermaid => Err(Failure::usage(
            "write the result",
            "dot and mermaid draw plans only",
            "Use -o table, json, jsonl, csv or yaml.",
        )),
        _ => Ok(()),
    }
}
