//! The caller of a call, and its rights.
use std::sync::Arc;

/// The rights of a token.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Empty for an unscoped token.
    pub(crate) project: Arc<str>,
    /// The user's id; empty for the sandbox itself.
    pub(crate) user: Arc<str>,
    pub(crate) is_admin: bool,
    pub(crate) is_member: bool,
}

impl Caller {
    /// Returns an admin of a project, for changes that the sandbox makes by itself.
    pub(crate) fn admin_of(project: &str) -> Self {
        Self {
            project: project.into(),
            user: "".into(),
            is_admin: true,
            is_member: true,
        }
    }

    /// Whether the caller owns the resources of a project. An admin owns everything.
    pub(crate) fn owns(&self, project: &str) -> bool {
        self.is_admin || *self.project == *project
    }

    /// Whether the caller may change anything. A mere reader may not.
    pub(crate) fn writes(&self) -> bool {
        self.is_admin || self.is_member
    }
}
