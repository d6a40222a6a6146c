//! The command line described for others: completions for shells, pages for `man`.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use super::Failure;
use super::args::Cli;
use crate::domain::text::did_you_mean;

/// What a shell reads to complete verbs and options.
///
/// # Errors
/// The reader is gone.
pub fn completions(shell: Shell, out: &mut impl Write) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gone", &mut script);
    out.write_all(&script)
}

/// The page of the program, or of one verb, as `man` reads it.
///
/// # Errors
/// No such verb; the reader is gone.
pub fn man(verb: Option<&str>, out: &mut impl Write) -> Result<(), Failure> {
    let pages = pages();
    let name = verb.map_or("gone".to_owned(), |verb| format!("gone-{verb}"));
    let Some((_, page)) = pages.iter().find(|(known, _)| *known == name) else {
        let verbs = pages
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("gone-"));
        let verb = verb.unwrap_or_default();
        return Err(Failure::usage(
            "show the manual",
            format!("no verb \"{verb}\"{}", did_you_mean(verb, verbs)),
            "`gone --help` lists them.",
        ));
    };
    page.render(out)?;
    Ok(())
}

/// Writes all pages into a folder that stands, one a file: `gone.1`, `gone-plan.1`, ….
///
/// # Errors
/// The folder cannot be written.
pub fn write_manual(folder: &Path) -> io::Result<()> {
    for (name, page) in pages() {
        let mut text = Vec::new();
        page.render(&mut text)?;
        std::fs::write(folder.join(format!("{name}.1")), text)?;
    }
    Ok(())
}

fn pages() -> Vec<(String, Man)> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let verbs: Vec<clap::Command> = program.get_subcommands().cloned().collect();
    let verbs = verbs.into_iter().map(|verb| {
        let name = format!("gone-{}", verb.get_name());
        (name.clone(), Man::new(verb).title(name))
    });
    std::iter::once(("gone".to_owned(), Man::new(program.clone())))
        .chain(verbs)
        .collect()
}
