//! The console's own messages.

use chrono::{DateTime, Utc};

use super::look::Tone;

/// One message to the person at the console.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) at: DateTime<Utc>,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}
