//! Secrets in files: nobody but their owner may read them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};

pub(super) fn exposed(file: &Path) -> Result<(), String> {
    let shown = file.display();
    match std::fs::metadata(file) {
        // A verb of another user, who attaches and sends nothing, need not see the secret.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(format!("{shown} cannot be read: {error}")),
        Ok(found) if !found.is_file() => Err(format!("{shown} is no file")),
        Ok(found) => match found.permissions().mode() & 0o777 {
            mode if mode & 0o077 != 0 => Err(format!(
                "{shown} may be read by others (mode {mode:03o}): chmod 600 {shown}"
            )),
            _ => Ok(()),
        },
    }
}

/// The secret in a private file, without the end of its line.
///
/// # Errors
/// The file cannot be read, others can read it, or it holds no one line of text.
pub fn secret_in(file: &Path) -> Result<SecretString, String> {
    exposed(file)?;
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map(SecretString::from)
        .map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let secret = text.expose_secret().trim();
    if secret.is_empty() || secret.chars().any(char::is_control) {
        return Err(format!("{shown} must hold one line with the secret"));
    }
    Ok(secret.into())
}
