//! Saves a person's choices in the console to the settings file, and leaves the rest of the file as it was written.

use std::io::ErrorKind;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, value};

use super::load::parse;
use crate::system::private;

/// The tables of the settings that the console writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ChoiceTable {
    /// The views, by name.
    Views,
    /// The columns that lists show, by the word of the list's pane, and the columns of trees.
    Columns,
}

/// A choice that a person made in the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub table: ChoiceTable,
    pub name: String,
    /// None removes the choice.
    pub value: Option<String>,
}

/// Saves a choice in its table, or removes it from there. Order and the file's permissions stay, and so do comments,
/// except one behind a replaced value and those of a removed choice. If the path is a link, the file to which it leads
/// is changed.
///
/// # Errors
/// The file cannot be read or written, or is not valid before or after the change.
pub fn save_choice(file: &Path, choice: &Choice) -> Result<(), String> {
    let file = match file.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => file.to_path_buf(),
        Err(error) => return Err(error.to_string()),
    };
    let (text, permissions) = match std::fs::read_to_string(&file) {
        Ok(text) => (
            text,
            std::fs::metadata(&file).map(|it| it.permissions()).ok(),
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => (String::new(), None),
        Err(error) => return Err(error.to_string()),
    };
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    let (table, name): (&str, _) = (choice.table.into(), choice.name.as_str());
    let entries = document.entry(table).or_insert(Item::Table(Table::new()));
    let entries = entries.as_table_like_mut();
    let entries = entries.ok_or_else(|| format!("{table} is not a table"))?;
    match (entries.get_mut(name), &choice.value) {
        // A comment above the name belongs to the name, which stays.
        (Some(known), Some(chosen)) => *known = value(chosen),
        (None, Some(chosen)) => _ = entries.insert(name, value(chosen)),
        (_, None) => _ = entries.remove(name),
    }
    let changed = document.to_string();
    parse(&changed, &file).map_err(|error| error.to_string())?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    private::replace(&file, changed.as_bytes()).map_err(|error| error.to_string())?;
    match permissions {
        Some(permissions) => {
            std::fs::set_permissions(&file, permissions).map_err(|error| error.to_string())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn view(text: &str) -> Choice {
        Choice {
            table: ChoiceTable::Views,
            name: "night".to_owned(),
            value: Some(text.to_owned()),
        }
    }

    fn saved(before: Option<&str>) -> (Result<(), String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gone/config.toml");
        if let Some(before) = before {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, before).unwrap();
        }
        let result = save_choice(&file, &view("stuck @prod /timeout"));
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        (result, text)
    }

    #[test]
    fn saving_a_choice_keeps_the_rest_of_the_file() {
        let line = "night = \"stuck @prod /timeout\"\n";
        for (before, after) in [
            (None, format!("[views]\n{line}")),
            (
                Some("# mine\n[gc]\nmax_attempts = 3 # few\n"),
                format!("# mine\n[gc]\nmax_attempts = 3 # few\n\n[views]\n{line}"),
            ),
            (
                Some("[views]\n# at night\nnight = \"home\"\nday = \"sites\"\n"),
                format!("[views]\n# at night\n{line}day = \"sites\"\n"),
            ),
        ] {
            let (result, text) = saved(before);
            assert_eq!((result, text), (Ok(()), after));
        }
    }

    #[test]
    fn removing_a_choice_keeps_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(
            &file,
            "[columns]\nstuck = \"what\"\nport = \"name\" # mine\n",
        )
        .unwrap();
        let choice = |value: Option<&str>| Choice {
            table: ChoiceTable::Columns,
            name: "stuck".to_owned(),
            value: value.map(str::to_owned),
        };
        save_choice(&file, &choice(None)).unwrap();
        let without = "[columns]\nport = \"name\" # mine\n";
        assert_eq!(std::fs::read_to_string(&file).unwrap(), without);
        save_choice(&file, &choice(None)).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), without);
        save_choice(&file, &choice(Some("state what"))).unwrap();
        let with = format!("{without}stuck = \"state what\"\n");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), with);
    }

    #[test]
    fn an_invalid_file_is_not_changed() {
        for before in ["[views\n", "views = 3\n", "[nonsense]\n"] {
            let (result, text) = saved(Some(before));
            assert!(result.is_err(), "{before}");
            assert_eq!(text, before);
        }
    }

    #[test]
    fn saving_a_choice_keeps_permissions_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.toml"), folder.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save_choice(&link, &view("stuck")).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(std::fs::read_to_string(&file).unwrap().contains("night"));
    }
}
