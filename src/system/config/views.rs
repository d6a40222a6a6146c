//! Saves a view in the settings file, and leaves the rest of the file as a person wrote it.

use std::io::ErrorKind;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, value};

use super::load::parse;
use crate::system::private;

/// Saves a view of the console under this name in the table `[views]`. Comments and order stay, and so do the
/// file's permissions; a link to the file is followed.
///
/// # Errors
/// The file cannot be read or written, or is not valid: before or after the change.
pub fn save_view(file: &Path, name: &str, view: &str) -> Result<(), String> {
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
    let views = document.entry("views").or_insert(Item::Table(Table::new()));
    let views = views.as_table_like_mut().ok_or("views is not a table")?;
    // A comment above the name belongs to the name, which stays.
    match views.get_mut(name) {
        Some(known) => *known = value(view),
        None => _ = views.insert(name, value(view)),
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

    fn saved(before: Option<&str>) -> (Result<(), String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gone/config.toml");
        if let Some(before) = before {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, before).unwrap();
        }
        let result = save_view(&file, "night", "stuck @prod /timeout");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        (result, text)
    }

    #[test]
    fn the_rest_of_the_file_stays_as_a_person_wrote_it() {
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
    fn a_file_that_is_not_valid_is_left_alone() {
        for before in ["[views\n", "views = 3\n", "[nonsense]\n"] {
            let (result, text) = saved(Some(before));
            assert!(result.is_err(), "{before}");
            assert_eq!(text, before);
        }
    }

    #[test]
    fn permissions_and_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.toml"), folder.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save_view(&link, "night", "stuck").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(std::fs::read_to_string(&file).unwrap().contains("night"));
    }
}
