//! The verbs and options of the command line, and their descriptions for shells and for `man`. Names here are fixed:
//! scripts use them.
//!
//! A verb that needs no engine is a struct of its arguments, in a file of `app`. The struct implements `LocalVerb`, and
//! has a line in `local_verbs!` below. Verbs that need an engine are in `frontends/cli`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man as Page;

use super::{LocalVerb, Process, examine, notify, replay, sandbox_args, upkeep};
use crate::domain::text::did_you_mean;
use crate::frontends::cli::args::Global;
use crate::frontends::cli::{EngineVerb, Exit, Failure, no_drawing};
use crate::present::{joined, or_empty};

/// Deletes cloud resources, and keeps at it until they are gone.
#[derive(Debug, Parser)]
#[command(
    name = "gone",
    version,
    args_conflicts_with_subcommands = false,
    after_long_help = "\
Examples:
  gone --sandbox                        try it on a built-in practice cloud
  gone                                  the console, on the clouds of clouds.yaml
  gone plan network/web@prod --cascade  what would be deleted, in which order, and why
  gone list stuck                       what needs a person
  gone doctor                           what is missing on this machine

Exit codes: 0 done, 1 internal error, 2 usage or configuration,
3 authentication, 4 some resources are stuck, failed or abandoned, or the
deletion was cancelled, 5 unreachable, 6 refused, 7 the plan has drifted,
8 still running, 130 interrupted."
)]
pub struct Cli {
    /// Run the engine without a console
    #[arg(long)]
    pub engine: bool,
    /// Start a session of its own, so that the engine outlives the terminal of the console that started it
    #[arg(long, hide = true, requires = "engine")]
    pub new_session: bool,
    /// Read the OS_* variables of a console from standard input, as a JSON object
    #[arg(long, hide = true, requires = "new_session")]
    pub variables_by_stdin: bool,
    /// Show every setting with its default, as a settings file
    #[arg(long)]
    pub print_config: bool,
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

impl Cli {
    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// The arguments are wrong, or ask for help; the error says so.
    pub(super) fn of_process() -> Result<Self, clap::Error> {
        let matches = command().try_get_matches()?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    #[command(flatten)]
    Engine(EngineVerb),
    #[command(flatten)]
    Local(Local),
}

macro_rules! local_verbs {
    ($($verb:ident: $arguments:ty,)*) => {
        /// The verbs that need no engine, each with its arguments.
        #[derive(Debug, Subcommand)]
        pub enum Local {
            $($verb($arguments),)*
        }

        impl LocalVerb for Local {
            fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
                no_drawing(process.global.output)?;
                match self {
                    $(Self::$verb(verb) => verb.run(process),)*
                }
            }
        }
    };
}

local_verbs! {
    Check: examine::Check,
    Doctor: examine::Doctor,
    Ledger: upkeep::Ledger,
    Audit: upkeep::Audit,
    Replay: replay::ReplayLedger,
    Notify: notify::Notify,
    Sandbox: sandbox_args::Sandbox,
    Completions: Completions,
    Man: Man,
}

/// The command line. `-h` of a verb fits a small screen: its own options and two examples; `--help` has the
/// rest.
pub fn command() -> Command {
    with_brief_help(Cli::command())
}

fn with_brief_help(command: Command) -> Command {
    let long = or_empty(command.get_after_long_help());
    let examples = long.lines().filter(|line| line.starts_with("  gone "));
    let examples = joined(examples.take(2), "\n");
    let command = match examples.is_empty() {
        true => command,
        false => {
            let more = "All options, also the global ones (--cloud, --region, -o): --help";
            command.after_help(format!("Examples:\n{examples}\n{more}"))
        }
    };
    command.mut_subcommands(with_brief_help)
}

/// Write a shell's completion script
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone completions bash > ~/.local/share/bash-completion/completions/gone
  gone completions zsh > \"${fpath[1]}/_gone\"
  gone completions fish > ~/.config/fish/completions/gone.fish")]
pub struct Completions {
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Write the manual's pages, as `man` reads them
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Examples:
  gone man | man -l -
  gone man delete | man -l -
  gone man --out /usr/local/share/man/man1")]
pub struct Man {
    /// The verb whose page to write; without it, the page of the program
    #[arg(value_name = "VERB")]
    pub verb: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    pub out: Option<PathBuf>,
}

impl LocalVerb for Completions {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        process.print(|to| completions(self.shell, to.stream))?;
        Ok(Exit::Done)
    }
}

impl LocalVerb for Man {
    fn run(self, process: &Process<'_>) -> Result<Exit, Failure> {
        match self.out {
            None => process.print(|to| man(self.verb.as_deref(), to.stream))?,
            Some(folder) => {
                let action_words = format!("write the manual into {}", folder.display());
                let advice = "Name a folder that exists and is writable.";
                write_manual(&folder).map_err(Failure::usage_of(action_words, advice))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Writes the script with which a shell completes verbs and options.
///
/// # Errors
/// The output cannot be written.
pub fn completions(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "gone", &mut script);
    out.write_all(&script)
}

/// Writes the page of the program, or of one verb, for `man`.
///
/// # Errors
/// There is no such verb, or the output cannot be written.
pub fn man(verb: Option<&str>, out: &mut dyn Write) -> Result<(), Failure> {
    let pages = pages()?;
    let name = verb.map_or("gone".to_owned(), |verb| format!("gone-{verb}"));
    let Some((_, page)) = pages.iter().find(|(known, _)| *known == name) else {
        let verbs = pages
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("gone-"));
        let verb = verb.unwrap_or_default();
        let near = did_you_mean(verb, verbs);
        let why = format!("no verb \"{verb}\"{near}");
        let advice = "`gone --help` lists the verbs.";
        return Err(Failure::usage("show the manual", why, advice));
    };
    Ok(out.write_all(page)?)
}

/// Writes all pages into an existing folder, each to its own file: `gone.1`, `gone-plan.1`, ….
fn write_manual(folder: &Path) -> io::Result<()> {
    for (name, page) in pages()? {
        std::fs::write(folder.join(format!("{name}.1")), page)?;
    }
    Ok(())
}

/// The name and the text of each page: that of the program, then those of the verbs.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = command().disable_help_subcommand(true);
    program.build();
    let verbs = program.get_subcommands().map(|verb| {
        let name = format!("gone-{}", verb.get_name());
        (name.clone(), Page::new(verb.clone()).title(name))
    });
    let program = ("gone".to_owned(), Page::new(program.clone()));
    let rendered = std::iter::once(program).chain(verbs).map(|(name, page)| {
        let mut text = Vec::new();
        page.render(&mut text)?;
        Ok((name, text))
    });
    rendered.collect()
}
