//! The command line: one action for scripts and people, a client of [`Control`](crate::control::Control).
//!
//! Standard output carries the result and nothing else, in the format that was asked for; progress,
//! questions and errors go to standard error. The exit code says how it ended ([`exit`]).

mod act;
pub mod args;
pub mod audit;
pub mod check;
mod columns;
mod delete;
pub mod describe;
pub mod doctor;
mod drift;
pub mod exit;
pub mod failure;
mod list;
pub mod output;
mod plan;
pub mod plan_file;
pub mod plan_view;
mod purge;
mod release;
mod session;
mod show;
pub mod tree;
pub mod wait;
mod watch;

pub use exit::Exit;
pub use failure::Failure;
pub use session::{ReadLine, Session};

use act::Act;
use args::{EngineVerb, Format};

/// Carries out a verb through an engine, and reports a failure on standard error.
pub async fn run(mut session: Session<'_>, verb: EngineVerb) -> Exit {
    let session = &mut session;
    let done = match check_format(session, &verb) {
        Err(failure) => Err(failure),
        Ok(()) => match verb {
            EngineVerb::Plan(args) => plan::run(session, args).await,
            EngineVerb::Delete(args) => delete::run(session, args).await,
            EngineVerb::List(args) => list::run(session, args).await,
            EngineVerb::Show(args) => show::show(session, args).await,
            EngineVerb::Tree(args) => show::tree(session, args).await,
            EngineVerb::Explain(args) => show::explain(session, args).await,
            EngineVerb::Watch(args) => watch::run(session, args).await,
            EngineVerb::Retry(args) => act::retry(session, args).await,
            EngineVerb::Drift(args) => drift::run(session, args).await,
            EngineVerb::Purge(args) => purge::run(session, args).await,
            EngineVerb::Release(args) => release::run(session, args).await,
            EngineVerb::Cancel(args) => act::run(session, Act::Cancel, &args.ids, "").await,
            EngineVerb::Pause(args) => {
                act::run(session, Act::Pause, &args.ids, &args.why.reason).await
            }
            EngineVerb::Resume(args) => {
                act::run(session, Act::Resume, &args.ids, &args.why.reason).await
            }
            EngineVerb::Prune(args) => act::prune(session, &args).await,
        },
    };
    let flushed = session.out.flush().map_err(Failure::from);
    match done.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) => {
            // Standard error is the last place to report; if it is gone too, the exit code remains.
            let _ = failure.write(session.err, session.style, session.global.output);
            failure.exit
        }
    }
}

fn check_format(session: &Session<'_>, verb: &EngineVerb) -> Result<(), Failure> {
    match verb {
        EngineVerb::Plan(_) => Ok(()),
        _ => no_drawing(session.global.output),
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
