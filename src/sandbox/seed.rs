//! Builds a topology at once: 100,000 ports in seconds.
//!
//! The data of all seeds is in `assets/sandbox/seed.toml`: `[most]` and `[needs]` say which seeds are
//! refused, and each `[[step]]` says what is created ([`Step`]). `${word}` in a text of a step stands for:
//!
//! | word | value |
//! |---|---|
//! | `prefix`, `group` | the prefix of all names; the id of the project's default security group |
//! | `new` | a new id |
//! | `i`, or another `number` | the number of the repetition |
//! | the word in a step's `as` | the last id of the step |
//! | `LIST[n]`, `LIST[n+1]` | an id of the list that steps saved; after its end, the list begins again |
//! | `members[n]` | a project other than the seed's |
//! | `block[n]`, `byte[n]` | the first two bytes of network `n`'s addresses; `n` modulo 256 |
use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::{HeaderMap, Method};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::core::{Body, Call, Session, refuse_if, resource};
use super::neutron;
use super::template::{fill, fill_all};

/// The body of `POST /sandbox/v1/seed`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Seed {
    /// The region in which the resources are created; the first region when missing.
    pub(super) region: Option<String>,
    /// Prefix of all names; `seed` when missing. `prefix` is an alias.
    #[serde(alias = "prefix")]
    name: Option<String>,
    /// Name or id of the project that owns the resources; `admin` when missing.
    pub(super) project: Option<String>,
    networks: usize,
    /// Ports in addition to those for DHCP, routers, trunks, servers, floating IPs and load balancers.
    ports_per_network: usize,
    routers: usize,
    /// Floating IPs, each for a port of its own behind a router, spread over the networks.
    floating_ips: usize,
    trunks: usize,
    /// Servers, each with a port, spread over the networks.
    servers: usize,
    /// Load balancers on the first network, each with a listener, a pool of two members and a health monitor.
    load_balancers: usize,
    /// Images, each shared with all other projects.
    images: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    most: BTreeMap<String, usize>,
    needs: BTreeMap<String, String>,
    step: Vec<Step>,
}

/// One step of a seed, which runs for each number from `from` up to, but without, `to`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    /// The word for the number; `i` when missing.
    number: Option<String>,
    /// The word for the number of an outer step, which is the first number; 0 when missing.
    from: Option<String>,
    /// The field of the seed that has the end of the numbers, or `members`. When missing, the step runs once.
    to: Option<String>,
    /// The field of the seed that has the distance between the numbers; 1 when missing.
    by: Option<String>,
    /// The kind of the row to create.
    kind: Option<String>,
    /// Instead of a kind: the path of a `PUT` to Neutron.
    put: Option<String>,
    /// Instead of a kind: an id that needs no row.
    id: Option<String>,
    body: Body,
    /// Further attributes of the body, taken in rotation.
    cycle: Vec<Body>,
    /// Whether an existing row with all attributes of the body is used instead of a new one, without the steps of
    /// `then`.
    reuse: bool,
    /// Whether the pending change of the new row ends at once.
    settle: bool,
    /// The list in the answer that the id is added to.
    save: Option<String>,
    /// The word for the id.
    r#as: Option<String>,
    /// The steps that follow each creation.
    then: Vec<Step>,
}

static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
    let script = toml::from_str(include_str!("../../assets/sandbox/seed.toml"));
    script.unwrap_or_else(|problem| unreachable!("seed.toml: {problem}"))
});

impl Seed {
    /// Refuses a seed with too large a number, or without a number that another needs. The error names the field.
    pub(super) fn check(&self) -> Result<(), String> {
        let numbers = self.numbers();
        let number = |name: &str| numbers.get(name).copied().unwrap_or(0);
        for (name, most) in &SCRIPT.most {
            refuse_if(number(name) > *most, || format!("{name}: at most {most}"))?;
        }
        for (name, needed) in &SCRIPT.needs {
            if number(name) > 0 && number(needed) == 0 {
                return Err(format!("{name}: needs {needed} as well"));
            }
        }
        Ok(())
    }

    /// Returns the fields of the seed that are numbers.
    fn numbers(&self) -> BTreeMap<String, usize> {
        let fields = serde_json::to_value(self).unwrap_or_default();
        let fields = fields.as_object().cloned().unwrap_or_default();
        let number = |(name, value): (String, Value)| {
            let number = usize::try_from(value.as_u64()?).ok()?;
            Some((name, number))
        };
        fields.into_iter().filter_map(number).collect()
    }

    /// Creates the resources, and returns their ids. `members` are the projects that images are shared with.
    pub(super) fn build(
        &self,
        session: &mut Session<'_>,
        members: Vec<String>,
    ) -> Result<Value, String> {
        let project = session.caller.project.clone();
        let group = neutron::ensure_default(session, &project);
        let mut numbers = self.numbers();
        numbers.insert("members".to_owned(), members.len());
        let prefix = self.name.as_deref().unwrap_or("seed");
        let mut builder = Builder {
            first_block: session.store().all("network").count(),
            session,
            numbers,
            words: [("prefix", prefix.to_owned()), ("group", group.to_string())]
                .map(|(word, value)| (word.to_owned(), value))
                .into(),
            lists: BTreeMap::from([("members".to_owned(), members)]),
        };
        for step in &SCRIPT.step {
            builder.run(step)?;
        }
        builder.lists.remove("members");
        let mut made = json!(builder.lists);
        made["external_network"] = builder.words.remove("external").into();
        Ok(made)
    }
}

struct Builder<'b, 's> {
    session: &'b mut Session<'s>,
    numbers: BTreeMap<String, usize>,
    words: BTreeMap<String, String>,
    lists: BTreeMap<String, Vec<String>>,
    /// The address block of the seed's first network: after those of earlier networks, so that seeds do not
    /// overlap.
    first_block: usize,
}

impl Builder<'_, '_> {
    fn run(&mut self, step: &Step) -> Result<(), String> {
        let number = |name: &String| self.numbers.get(name).copied().unwrap_or(0);
        let (to, by) = (step.to.as_ref().map(number), step.by.as_ref().map(number));
        let from = step.from.as_ref().and_then(|word| self.words.get(word));
        let from: usize = from.and_then(|text| text.parse().ok()).unwrap_or(0);
        if let Some(list) = &step.save {
            self.lists.entry(list.clone()).or_default();
        }
        let word = step.number.as_deref().unwrap_or("i");
        for number in (from..to.unwrap_or(1)).step_by(by.unwrap_or(1).max(1)) {
            if step.to.is_some() {
                self.words.insert(word.to_owned(), number.to_string());
            }
            let mut body = step.body.clone();
            if !step.cycle.is_empty() {
                body.extend(step.cycle[number % step.cycle.len()].clone());
            }
            let body = fill_all(&body.into(), &mut |word| self.word(word))?;
            let known = step.kind.as_ref().filter(|_| step.reuse);
            let known = known.and_then(|kind| self.existing(kind, &body));
            let id = match known {
                Some(id) => id.to_string(),
                None => self.make(step, &body)?,
            };
            if let Some(list) = &step.save {
                self.lists.entry(list.clone()).or_default().push(id.clone());
            }
            if let Some(word) = &step.r#as {
                self.words.insert(word.clone(), id);
            }
            if known.is_none() {
                step.then.iter().try_for_each(|then| self.run(then))?;
            }
        }
        Ok(())
    }

    /// Performs a step, and returns the id of the new row, or the step's `id`; an empty text for a `put`.
    fn make(&mut self, step: &Step, body: &Value) -> Result<String, String> {
        if let Some(path) = &step.put {
            let path = format!("/v2.0/{}", fill(path, &mut |word| self.word(word))?);
            let body = body.to_string();
            let call = Call {
                method: &Method::PUT,
                path,
                query: Vec::new(),
                headers: &HeaderMap::new(),
                body: body.as_bytes(),
                url: String::new(),
            };
            let answer = resource::route(self.session, &neutron::API, &call);
            return answer.map(|_| String::new()).map_err(|it| it.to_string());
        }
        let Some(kind) = &step.kind else {
            let id = step.id.as_deref().unwrap_or_default();
            return fill(id, &mut |word| self.word(word));
        };
        let id = self.session.create(kind, body);
        let id = id.map_err(|refusal| refusal.to_string())?;
        if step.settle {
            self.session.settle(kind, id);
        }
        Ok(id.to_string())
    }

    /// Returns the id of a row that has all attributes of a body.
    fn existing(&self, kind: &str, body: &Value) -> Option<Uuid> {
        let mut rows = self.session.store().all(kind);
        let body = body.as_object()?;
        let row = rows.find(|row| body.iter().all(|(name, value)| row.value(name) == *value));
        row.map(|row| row.id)
    }

    fn word(&mut self, word: &str) -> Option<String> {
        if word == "new" {
            return Some(self.session.store.ids.uuid().to_string());
        }
        let Some((list, index)) = word.strip_suffix(']').and_then(|word| word.split_once('['))
        else {
            return self.words.get(word).cloned();
        };
        let (number, more) = index.split_once('+').unwrap_or((index, "0"));
        let number = self.words.get(number).map_or(number, String::as_str);
        let number = number.parse::<usize>().ok()? + more.parse::<usize>().ok()?;
        match list {
            "byte" => Some((number % 256).to_string()),
            "block" => {
                let block = self.first_block + number;
                Some(format!("{}.{}", 10 + (block >> 8) % 100, block % 256))
            }
            list => {
                let ids = self.lists.get(list)?;
                ids.get(number.checked_rem(ids.len())?).cloned()
            }
        }
    }
}
