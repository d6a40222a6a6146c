//! The server of the toy cloud: a small JSON API with a static token. Ids are short and case-sensitive, errors have
//! status 400 and a `__type`, lists are paged by `nextToken`, and the delete of a machine takes a minute.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

pub const TOKEN: &str = "open sesame";
const PAGE: usize = 3;
const SHUTDOWN: TimeDelta = TimeDelta::minutes(1);

/// The kinds, as actions name them, each with the field of its id. A kind refers to the one before it by the field of
/// that kind's id.
const KINDS: [(&str, &str); 3] = [
    ("Vpc", "vpcId"),
    ("Subnet", "subnetId"),
    ("Machine", "machineId"),
];

/// The resources and the state of the toy cloud.
#[derive(Default)]
pub struct ToyServer {
    rows: BTreeMap<&'static str, BTreeMap<String, Value>>,
    shut_down: BTreeMap<String, DateTime<Utc>>,
    /// The errors of the next calls: an action and its error type.
    pub faults: Vec<(&'static str, &'static str)>,
    /// Machines whose next shutdown the cloud cancels, each with the reason.
    pub put_back: BTreeMap<String, &'static str>,
    /// Every call so far, for example `DeleteVpc vpc-Ab`.
    pub calls: Vec<String>,
}

impl ToyServer {
    pub fn create(&mut self, kind: &'static str, id: &str, fields: Value) {
        let (_, key) = KINDS.into_iter().find(|it| it.0 == kind).unwrap();
        let mut row = json!({
            key: id, "account": "acme", "state": "available", "createTime": 1_767_000_000,
            "tags": { "Name": id.to_lowercase() },
        });
        let fields = fields.as_object().cloned().unwrap_or_default();
        row.as_object_mut().unwrap().extend(fields);
        self.rows
            .entry(kind)
            .or_default()
            .insert(id.to_owned(), row);
    }

    pub fn remove(&mut self, kind: &'static str, id: &str) {
        self.rows.entry(kind).or_default().remove(id);
    }

    pub fn ids(&self) -> Vec<&str> {
        let rows = self.rows.values().flat_map(BTreeMap::keys);
        rows.map(String::as_str).collect()
    }

    /// Answers one request with a status and a body.
    pub fn handle(&mut self, token: &str, request: &Value, now: DateTime<Utc>) -> (u16, Value) {
        self.finish_shutdowns(now);
        let action = request["action"].as_str().unwrap_or_default();
        let id = request["id"].as_str().unwrap_or_default();
        self.calls.push(format!("{action} {id}").trim().to_owned());
        if token != TOKEN {
            return refused("AccessDenied", "the token is wrong");
        }
        if let Some(at) = self.faults.iter().position(|fault| fault.0 == action) {
            return refused(self.faults.remove(at).1, "try again");
        }
        for (nth, (kind, key)) in KINDS.into_iter().enumerate() {
            if action == format!("List{kind}s") {
                return self.list(kind, key, request);
            }
            if action == format!("Delete{kind}") {
                let referrer = KINDS.get(nth + 1).map(|(referrer, _)| (*referrer, key));
                return self.delete((kind, referrer), id, now);
            }
        }
        refused("UnknownAction", action)
    }

    /// Removes the machines whose shutdown has ended, or makes them available again.
    fn finish_shutdowns(&mut self, now: DateTime<Utc>) {
        let machines = self.rows.entry("Machine").or_default();
        let due = self.shut_down.iter().filter(|(_, at)| **at <= now);
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            self.shut_down.remove(&id);
            let row = machines.get_mut(&id);
            match (self.put_back.remove(&id), row) {
                (Some(why), Some(row)) => {
                    row["state"] = "available".into();
                    row["why"] = why.into();
                }
                _ => drop(machines.remove(&id)),
            }
        }
    }

    fn list(&self, kind: &'static str, key: &str, request: &Value) -> (u16, Value) {
        let key = request["filter"]["key"]
            .as_str()
            .map_or(key, |it| match it {
                "id" => key,
                other => other,
            });
        let values = request["filter"]["values"].as_array();
        let fits = |row: &&Value| values.is_none_or(|values| values.contains(&row[key]));
        let rows = self.rows.get(kind).into_iter().flat_map(BTreeMap::values);
        let from: usize = match request["nextToken"].as_str() {
            Some(token) => token.trim_start_matches("page-").parse().unwrap(),
            None => 0,
        };
        let fitting: Vec<&Value> = rows.filter(fits).collect();
        let items: Vec<&Value> = fitting.iter().skip(from).take(PAGE).copied().collect();
        let next = from + items.len();
        let next = (next < fitting.len()).then(|| format!("page-{next}"));
        (200, json!({ "items": items, "nextToken": next }))
    }

    fn delete(
        &mut self,
        (kind, referrer): (&'static str, Option<(&str, &str)>),
        id: &str,
        now: DateTime<Utc>,
    ) -> (u16, Value) {
        let Some(row) = self.rows.entry(kind).or_default().get_mut(id) else {
            return refused(&format!("{kind}NotFound"), &format!("there is no {id}"));
        };
        if kind == "Machine" {
            row["state"] = "shutting-down".into();
            self.shut_down
                .entry(id.to_owned())
                .or_insert(now + SHUTDOWN);
            return (200, json!({}));
        }
        if let Some((referrer, field)) = referrer {
            let rows = self.rows.get(referrer).into_iter().flatten();
            let users: Vec<&str> = rows
                .filter(|(_, row)| row[field] == id)
                .map(|(id, _)| id.as_str())
                .collect();
            if !users.is_empty() {
                let message = format!("{id} has dependencies: {}", users.join(" "));
                return refused("DependencyViolation", &message);
            }
        }
        self.rows.entry(kind).or_default().remove(id);
        (200, json!({}))
    }
}

fn refused(kind: &str, message: &str) -> (u16, Value) {
    (400, json!({ "__type": kind, "message": message }))
}
