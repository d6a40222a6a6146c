//! A cloud in the same process, on a paused clock, as simulations use it.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use gone::cloud::openstack::{Clock, Reason, Session, Transport, TransportError};
use http::{Method, Request, Response};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{password_cloud, token_body};

/// A transport that answers a login at once, and a GET after `latency`.
struct InProcess {
    latency: Duration,
    logins: AtomicUsize,
}

#[async_trait]
impl Transport for InProcess {
    async fn send(
        &self,
        request: Request<Bytes>,
        deadline: Duration,
    ) -> Result<Response<Bytes>, TransportError> {
        if request.method() == Method::POST {
            self.logins.fetch_add(1, Ordering::SeqCst);
            let body = token_body("http://network").to_string();
            let answer = Response::builder()
                .status(201)
                .header("x-subject-token", "t");
            return Ok(answer.body(body.into()).unwrap());
        }
        // A sensitive header is not shown by the HTTP libraries.
        assert!(request.headers()["x-auth-token"].is_sensitive());
        let answered = timeout(deadline, sleep(self.latency)).await;
        answered.map_err(|_| TransportError::TimedOut { deadline })?;
        Ok(Response::new(Bytes::from_static(b"{}")))
    }
}

/// A wall clock that follows the paused runtime's time.
fn paused_clock() -> Clock {
    let start = Instant::now();
    let origin: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().unwrap();
    Arc::new(move || origin + TimeDelta::from_std(start.elapsed()).unwrap())
}

fn session(latency: Duration) -> (Arc<InProcess>, Session) {
    let transport = Arc::new(InProcess {
        latency,
        logins: AtomicUsize::new(0),
    });
    let cloud = password_cloud("http://keystone");
    (
        transport.clone(),
        Session::new(cloud, transport, paused_clock()),
    )
}

async fn get(session: &Session, deadline: Duration) -> Result<u16, Reason> {
    let call = session.request("network", Method::GET, "/v2.0/x", None, deadline);
    call.await.map(|a| a.status).map_err(|e| e.reason)
}

#[tokio::test(start_paused = true)]
async fn a_day_of_calls_renews_the_token_every_58_minutes() {
    let (transport, session) = session(Duration::from_secs(1));
    for _ in 0..24 * 60 {
        assert_eq!(get(&session, Duration::from_secs(5)).await, Ok(200));
        sleep(Duration::from_secs(59)).await;
    }
    // A token that is valid for 60 minutes is used for 58.
    assert_eq!(transport.logins.load(Ordering::SeqCst), 25);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_within_two_milliseconds_of_its_deadline() {
    let (_, session) = session(Duration::from_secs(3600));
    let start = Instant::now();
    let deadline = Duration::from_secs(30);
    let timed_out = Reason::Transport(TransportError::TimedOut { deadline });
    assert_eq!(get(&session, deadline).await, Err(timed_out));
    assert!(start.elapsed() - deadline < Duration::from_millis(2));
}
