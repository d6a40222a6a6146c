//! Secrets in files that nobody but their owner may read.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};

use crate::system::private::{self, Trusted, check_way};

/// Checks a secret file. The error says that the file is missing, is a folder or the like, or can be read by other
/// users. A file that this user has no permission to find passes.
pub(super) fn exposed(file: &Path) -> Result<(), String> {
    let shown = file.display();
    match std::fs::metadata(file) {
        // A verb that another user runs attaches to the engine and sends nothing itself, so it need not read the
        // secret.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(format!("{shown} cannot be read: {error}")),
        Ok(found) if !found.is_file() => Err(format!("{shown} is not a file")),
        Ok(found) => match found.permissions().mode() & 0o777 {
            mode if mode & 0o077 != 0 => Err(format!(
                "{shown} may be read by others (mode {mode:03o}): chmod 600 {shown}"
            )),
            _ => Ok(()),
        },
    }
}

/// Reads a file if no other account could have replaced it. Mounted secrets are symbolic links, which are followed
/// under the same condition.
fn read(file: &Path) -> io::Result<String> {
    check_way(file, Trusted::us())?;
    let found = std::fs::canonicalize(file)?;
    let mut text = String::new();
    private::open(&found, Trusted::us())?.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the secret in a private file, without white space at its ends.
///
/// # Errors
/// The file cannot be read, other users can read or replace it, or it does not contain one line of text.
pub fn secret_in(file: &Path) -> Result<SecretString, String> {
    exposed(file)?;
    let shown = file.display();
    let text = read(file).map(SecretString::from);
    let text = text.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let secret = text.expose_secret().trim();
    if secret.is_empty() || secret.chars().any(char::is_control) {
        return Err(format!("{shown} must hold one line with the secret"));
    }
    Ok(secret.into())
}
