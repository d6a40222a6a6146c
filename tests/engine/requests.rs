//! Requests as clients make them up, or repeat them.

use gone::control::{ControlError, Query};
use gone::domain::model::KindName;

use super::harness::{Bench, paused};

const KINDS: &str = "service = \"billing\"\n[kind.customer.native]\n";

#[test]
fn a_cursor_that_no_page_gave_is_the_callers_mistake() {
    paused(async {
        let mut bench = Bench::new(1);
        bench.keeps("billing", KINDS);
        bench
            .run(async |client| {
                let forged = || Some("forged".to_owned());
                let (states, site, kind, limit) = (Vec::new(), None, None, 0);
                for query in [
                    Query::Deletions {
                        states: Vec::new(),
                        site: None,
                        kind: None,
                        older_than: None,
                        cursor: forged(),
                        limit,
                    },
                    Query::Steps {
                        deletion_id: None,
                        states,
                        site,
                        kind,
                        older_than: None,
                        cause: None,
                        filter: String::new(),
                        cursor: forged(),
                        limit,
                    },
                    Query::Tombstones {
                        site: None,
                        kind: Some(KindName::new("port")),
                        phases: Vec::new(),
                        id: None,
                        cursor: forged(),
                        limit,
                    },
                    Query::Native {
                        kind: "customer".to_owned(),
                        by: Vec::new(),
                        cursor: forged(),
                        limit,
                    },
                    Query::Orphans {
                        cursor: forged(),
                        limit,
                    },
                ] {
                    let asked = format!("{query:?}");
                    let answer = client.control.query(query).await;
                    let Err(ControlError::Usage { message }) = answer else {
                        panic!("{asked}: {answer:?}");
                    };
                    assert!(
                        message.contains("the cursor \"forged\""),
                        "{asked}: {message}"
                    );
                }
            })
            .await;
    });
}
