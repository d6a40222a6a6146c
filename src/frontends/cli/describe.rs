//! Descriptions of the command line: completions for shells, pages for `man`.

use std::io::{self, Write};
use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;

use super::Failure;
use super::args::command;
use crate::domain::text::did_you_mean;

/// Writes the script with which a shell completes verbs and options.
///
/// # Errors
/// The reader is gone.
pub fn completions(shell: Shell, out: &mut impl Write) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "gone", &mut script);
    out.write_all(&script)
}

/// Writes the page of the program, or of one verb, for `man`.
///
/// # Errors
/// There is no such verb, or the reader is gone.
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

/// Writes all pages into an existing folder, each to its own file: `gone.1`, `gone-plan.1`, ….
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
    let mut program = command().disable_help_subcommand(true);
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
