//! A frozen plan in a file, between `plan --out` and `delete --plan` (P1).

use std::io;
use std::path::Path;

use super::failure::Failure;
use crate::domain::model::{Plan, short_id};
use crate::domain::plan::plan_hash;
use crate::system::private;

/// A larger file is not a plan: a million steps take about 700 MB.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Writes the plan, readable by its owner only (0600). The file appears whole or not at all, and
/// replaces an older one.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn write(path: &Path, plan: &Plan) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(plan)?;
    text.push(b'\n');
    private::replace(path, &text)
}

/// Reads a plan, and refuses one that was changed after it was frozen.
///
/// # Errors
/// The file cannot be read, is not a plan, or its content does not match its hash.
pub fn read(path: &Path) -> Result<Plan, Failure> {
    let action_words = format!("read the plan {}", path.display());
    let advice = "Write it with `gone plan TARGET… --out FILE`.";
    read_frozen(path).map_err(Failure::usage_of(action_words, advice))
}

fn read_frozen(path: &Path) -> Result<Plan, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if size.len() > FILE_BYTES_MAX {
        return Err("the file is too large to be a plan".to_owned());
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut json = serde_json::Deserializer::from_str(&text);
    let plan: Plan = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (at, why) = (error.path(), error.inner());
        format!("the file is not a plan of this version of gone: {at}: {why}")
    })?;
    let found = plan_hash(&plan);
    if found != plan.hash {
        let (named, found) = (short_id(&plan.hash), short_id(&found));
        return Err(format!(
            "the plan was changed after it was frozen: the file names the hash {named}, but its content has the hash {found}"
        ));
    }
    Ok(plan)
}
