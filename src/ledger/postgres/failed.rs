//! Why a statement failed.

use tokio_postgres::error::SqlState;

use crate::ledger::store::sql::Damaged;

pub(super) type Sql<T> = Result<T, Failed>;

/// Why a statement failed, or why no connection to the server could be opened.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("{}", words(.0))]
    Statement(#[from] tokio_postgres::Error),
    #[error("{0}")]
    Damaged(#[from] Damaged),
    #[error("{0}")]
    Impossible(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Failed {
    /// The server's code for the error, if the server refused the statement.
    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Statement(error) => error.code(),
            _ => None,
        }
    }
}

/// Advice on an error that only a session shared by clients has: the session lacks a statement that this client has
/// prepared, or already has a statement of the same name. Empty for other errors.
fn advice(code: &SqlState) -> &'static str {
    let of_others = [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ];
    match of_others.contains(code) {
        true => {
            "; if a pooler gives each transaction another session, add ?pooler=transaction to the URL"
        }
        false => "",
    }
}

/// The server's own message, or why there is no answer.
fn words(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        let detail = said.detail().map(|it| format!(" ({it})"));
        let detail = detail.unwrap_or_default();
        return format!("{}{detail}{}", said.message(), advice(said.code()));
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
