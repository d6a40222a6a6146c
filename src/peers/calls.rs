//! The calls of `/peer/v1`. The messages of peers are passed on to the engine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use bytes::Bytes;
use http::StatusCode;
use rustls::pki_types::CertificateDer;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio_util::sync::CancellationToken;

use super::admission::Admission;
use super::problem::Problem;
use super::{Hint, PROTOCOL, PROTOCOL_HEADER, Peer, Spoken};
use crate::control::{Command, Control, Envelope, Receipt, query};
use crate::domain::model::{Actor, Origin};
use crate::domain::peers::{Answers, DeletionNotices, Deployment, Question, Watch};
use crate::domain::text::escape;

/// Maximum size of a message. A question about a thousand resources whose ids and roots have 255 bytes each takes a
/// tenth of this.
const BODY_BYTES_MAX: usize = 8 << 20;
/// A caller that has not sent its whole message within this time is refused.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// State that the calls share.
pub(super) struct Calls {
    pub(super) control: Arc<dyn Control>,
    pub(super) admission: Admission,
    /// Ends the watches, which would otherwise wait for longer than the shutdown may take.
    pub(super) stop: CancellationToken,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) address: SocketAddr,
    /// The caller's own certificate, which the configured authority has signed; none if the caller sent none.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

/// Returns the routes. Each request must have a [`Caller`] among its extensions.
pub(super) fn router(calls: Arc<Calls>) -> Router {
    Router::new()
        .route("/peer/v1", get(protocol))
        .route("/peer/v1/watch", post(watch))
        .route("/peer/v1/points-at", post(points_at))
        .route("/peer/v1/hint", post(hint))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::map_response(with_protocol))
        .with_state(calls)
}

async fn protocol() -> Json<Spoken> {
    Json(Spoken { protocol: PROTOCOL })
}

async fn watch(
    State(calls): State<Arc<Calls>>,
    request: Request,
) -> Result<Json<DeletionNotices>, Problem> {
    let watch: Watch = calls.message(request, |watch: &Watch| &watch.from).await?;
    let actor = actor(&watch.from);
    let submitted = calls.submit(Command::Watch { watch }, actor);
    let receipt = tokio::select! {
        receipt = submitted => receipt?,
        () = calls.stop.cancelled() => return Err(Problem::unavailable("this deployment is \
                                                                        shutting down; ask again \
                                                                        later")),
    };
    Ok(Json(receipt.into_notices()?))
}

async fn points_at(
    State(calls): State<Arc<Calls>>,
    request: Request,
) -> Result<Json<Answers>, Problem> {
    let question: Question = calls
        .message(request, |question: &Question| &question.from)
        .await?;
    let answers = calls
        .control
        .ask(query::ClearanceAnswers { question })
        .await?;
    Ok(Json(answers))
}

async fn hint(State(calls): State<Arc<Calls>>, request: Request) -> Result<StatusCode, Problem> {
    let Hint { from } = calls.message(request, |hint: &Hint| &hint.from).await?;
    let actor = actor(&from);
    calls.submit(Command::Hint { from }, actor).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn nothing_there(request: Request) -> Problem {
    let asked = format!("there is no {} {}", request.method(), request.uri().path());
    Problem::new(StatusCode::NOT_FOUND, "not-found", asked)
}

async fn wrong_method(request: Request) -> Problem {
    let asked = format!(
        "{} is not allowed for {}",
        request.method(),
        request.uri().path()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", asked)
}

/// Adds the protocol's header to a response, also to a refusal, so that a caller knows that a deployment
/// answered.
async fn with_protocol(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(PROTOCOL_HEADER, PROTOCOL.into());
    response
}

fn actor(from: &Deployment) -> Actor {
    Actor::new(format!("deployment {}", from.name), Origin::Peer)
}

impl Calls {
    async fn submit(&self, command: Command, actor: Actor) -> Result<Receipt, Problem> {
        Ok(self.control.submit(Envelope::new(command, actor)).await?)
    }

    /// Reads the message of a caller that may speak for the message's sender.
    async fn message<M: DeserializeOwned>(
        &self,
        request: Request,
        sender: fn(&M) -> &Deployment,
    ) -> Result<M, Problem> {
        let (head, body) = request.into_parts();
        let spoken = head.headers.get(PROTOCOL_HEADER);
        if spoken.is_none_or(|spoken| *spoken != *PROTOCOL.to_string()) {
            let detail = format!("this path requires the header {PROTOCOL_HEADER}: {PROTOCOL}");
            return Err(Problem::invalid(detail));
        }
        let caller = head.extensions.get::<Caller>();
        let address = caller.map(|caller| caller.address);
        let certificate = caller.and_then(|caller| caller.certificate.as_ref());
        let may_be = self.admission.of_caller(&head.headers, certificate).await;
        if may_be.is_empty() {
            tracing::warn!(?address, "an unknown peer was refused");
            return Err(Problem::stranger());
        }
        let message: M = parsed(&whole(body).await?)?;
        let claimed = Peer::from(sender(&message));
        if !may_be.contains(&claimed) {
            let claimed = escape(&claimed.to_string()).into_owned();
            tracing::warn!(
                ?address,
                claimed,
                "a peer was refused: it claims to be another peer"
            );
            return Err(Problem::stranger());
        }
        Ok(message)
    }
}

async fn whole(body: Body) -> Result<Bytes, Problem> {
    // One byte more than the limit is read. Otherwise a body that is too large would look like one that was
    // cut off.
    let read = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX + 1)).await;
    match read {
        Ok(Ok(bytes)) if bytes.len() <= BODY_BYTES_MAX => Ok(bytes),
        Ok(Ok(_)) => Err(Problem::too_large(BODY_BYTES_MAX)),
        Ok(Err(error)) => {
            let cause = std::error::Error::source(&error);
            let is_too_large =
                cause.is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>());
            Err(match is_too_large {
                true => Problem::too_large(BODY_BYTES_MAX),
                false => Problem::invalid("the body was cut off"),
            })
        }
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            format!(
                "the body did not arrive within {} s",
                BODY_TIMEOUT.as_secs()
            ),
        )),
    }
}

/// Parses a message. Unknown fields are ignored, because a later version of the same protocol may have added
/// them.
fn parsed<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let message = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let at = match error.path().to_string() {
            path if path == "." => "the body".to_owned(),
            path => format!("\"{path}\""),
        };
        let detail = format!("{at}: {}", error.inner());
        match error.inner().classify() {
            Category::Data => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unprocessable", detail)
            }
            Category::Io | Category::Syntax | Category::Eof => Problem::invalid(detail),
        }
    })?;
    let end = reader.end();
    end.map_err(|error| Problem::invalid(format!("the body: {error}")))?;
    Ok(message)
}
