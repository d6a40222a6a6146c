//! The identity of a token: its user, its project and its roles.
use serde::{Deserialize, Serialize};

/// The identity under which calls are made. It is compared with the identity under which a plan was made (rule
/// I13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub user_id: String,
    pub user_name: String,
    /// None if the token is for a domain or the system, or has no scope.
    pub project_id: Option<String>,
    pub project_name: Option<String>,
    /// The names of the roles, sorted.
    pub roles: Vec<String>,
    /// Id of the project's domain; else of the domain that the token is for; else the user's.
    pub domain: String,
}

impl Identity {
    /// Whether the services show this identity the rows of all projects.
    pub fn is_admin(&self) -> bool {
        self.roles.iter().any(|role| role == "admin")
    }
}
