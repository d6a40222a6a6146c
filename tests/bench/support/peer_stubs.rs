//! Deployments that only answer, all of them in this process. As owners they delete nothing; as importers they have
//! no resource that refers to another one.
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router, middleware};
use gone::domain::peers::{Answers, ClearanceAnswer, DeletionNotices, Deployment, Question, Watch};
use gone::peers::{PROTOCOL, PROTOCOL_HEADER};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const LEDGER: &str = "theirs";

pub struct PeerStubs {
    address: SocketAddr,
    waiting: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl PeerStubs {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let waiting = Arc::new(AtomicUsize::new(0));
        let router = Router::new()
            .route("/{service}/{region}/peer/v1/watch", post(watch))
            .route("/{service}/{region}/peer/v1/points-at", post(points_at))
            .route("/{service}/{region}/peer/v1/hint", post(hint))
            .layer(middleware::map_response(with_protocol))
            .with_state(waiting.clone());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            waiting,
            _runtime: runtime,
        }
    }

    /// The address of a deployment.
    pub fn address_of(&self, deployment: &Deployment) -> String {
        let Deployment {
            service, region, ..
        } = deployment;
        format!("{}/{service}/{region}", self.address)
    }

    /// The number of watches that wait, because they have all notices.
    pub fn waiting_watches(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

pub fn deployment(service: &str, region: &str) -> Deployment {
    Deployment {
        name: format!("{service}-{region}"),
        service: service.to_owned(),
        region: region.to_owned(),
    }
}

async fn watch(
    State(waiting): State<Arc<AtomicUsize>>,
    Path((service, region)): Path<(String, String)>,
    Json(watch): Json<Watch>,
) -> Json<DeletionNotices> {
    if watch.ledger == LEDGER && watch.wait_ms > 0 {
        waiting.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(watch.wait_ms)).await;
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
    Json(DeletionNotices {
        from: deployment(&service, &region),
        ledger: LEDGER.to_owned(),
        seq: 1,
        changes: Vec::new(),
        more: false,
    })
}

async fn points_at(
    Path((service, region)): Path<(String, String)>,
    Json(question): Json<Question>,
) -> Json<Answers> {
    let about = question.about.into_iter();
    Json(Answers {
        from: deployment(&service, &region),
        ledger: question.ledger,
        seq: question.seq,
        about: about
            .map(|asked| ClearanceAnswer::of(asked, Vec::new(), 0))
            .collect(),
    })
}

async fn hint() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn with_protocol(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(PROTOCOL_HEADER, PROTOCOL.into());
    response
}
