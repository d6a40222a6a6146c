//! The command line: each call carries out one verb, for a script or a person, as a client of
//! [`Control`](crate::control::Control).
//!
//! Standard output carries the result and nothing else, in the format that was asked for; progress,
//! questions and errors go to standard error. The exit code says how the verb ended ([`exit`]).
//!
//! A verb is a struct with its arguments that implements [`Verb`], and a line of the table below.

mod act;
pub mod args;
pub mod check;
mod columns;
mod delete;
pub mod doctor;
mod drift;
pub mod exit;
mod explain;
pub mod failure;
mod list;
pub mod output;
mod plan;
pub mod plan_file;
pub mod plan_view;
mod purge;
mod release;
mod report;
mod session;
mod show;
pub mod tree;
pub mod wait;
mod watch;

use clap::Subcommand;

pub use act::Prune;
pub use exit::Exit;
pub use failure::Failure;
pub use list::{List, What};
pub use session::{ReadLine, Session};

use args::Format;

/// A verb that an engine carries out: the running engine, or one in this process for as long as the verb takes.
pub trait Verb: Sized {
    /// Whether the verb takes any of the formats that draw: dot, mermaid and svg.
    const DRAWS: bool = false;
    /// Whether the verb only reads, whatever its arguments are.
    const READS: bool = false;

    fn needs(&self) -> Needs<'_> {
        Needs::reading(Self::READS)
    }

    /// Carries the verb out, and sets [`Session::action_words`] for its messages.
    fn run(self, session: &mut Session<'_>) -> impl Future<Output = Result<Exit, Failure>>;
}

/// The needs of a verb, which the engine that carries it out must meet.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'v> {
    /// The verb's targets, as typed: an engine of this process also serves the sites that they name.
    pub targets: &'v [String],
    /// Whether the verb only reads. Then a ledger that the command line names must exist.
    pub only_reads: bool,
    /// Whether an engine of this process must be reachable for other processes while the verb runs.
    pub listener: bool,
}

impl<'v> Needs<'v> {
    /// The needs of a verb without targets. A verb that only reads needs no listener.
    fn reading(only_reads: bool) -> Self {
        Self {
            targets: &[],
            only_reads,
            listener: !only_reads,
        }
    }

    fn of_targets(self, targets: &'v [String]) -> Self {
        Self { targets, ..self }
    }
}

macro_rules! verbs {
    ($($file:ident::$verb:ident,)*) => {
        /// The verbs that an engine carries out, each with its arguments.
        #[derive(Debug, Subcommand)]
        pub enum EngineVerb {
            $($verb($file::$verb),)*
        }

        impl Verb for EngineVerb {
            /// Each verb's own constant is checked when that verb runs.
            const DRAWS: bool = true;

            fn needs(&self) -> Needs<'_> {
                match self {
                    $(Self::$verb(verb) => verb.needs(),)*
                }
            }

            async fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
                match self {
                    $(Self::$verb(verb) => run_checked(session, verb).await,)*
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
    report::Report,
    explain::Explain,
    watch::Watch,
    act::Retry,
    drift::Drift,
    purge::Purge,
    release::Release,
    act::Cancel,
    act::Pause,
    act::Resume,
}

/// Carries out a verb through an engine, and reports a failure on standard error.
pub async fn run(mut session: Session<'_>, verb: impl Verb) -> Exit {
    let done = run_checked(&mut session, verb).await;
    let flushed = session.out.stream.flush().map_err(Failure::from);
    match done.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) => {
            let failure = failure.with_action(session.action_words);
            // Standard error is the last place to report; if it is gone too, the exit code remains.
            let _ = failure.write(&mut session.err);
            failure.exit
        }
    }
}

async fn run_checked<V: Verb>(session: &mut Session<'_>, verb: V) -> Result<Exit, Failure> {
    if !V::DRAWS {
        no_drawing(session.out.format)?;
    }
    verb.run(session).await
}

/// Refuses the formats that draw.
///
/// # Errors
/// The format draws plans and trees only.
pub fn no_drawing(format: Format) -> Result<(), Failure> {
    match format {
        Format::Dot | Format::Mermaid | Format::Svg => Err(Failure::usage(
            "write the result",
            "dot, mermaid and svg draw plans and trees only",
            "Use -o table, json, jsonl, csv or yaml.",
        )),
        _ => Ok(()),
    }
}
