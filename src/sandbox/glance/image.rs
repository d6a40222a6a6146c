//! An image and its members, as they are stored and shown.
use std::collections::BTreeSet;

use bytes::Bytes;
use chrono::{DateTime, SubsecRound, Utc};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::sandbox::Caller;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    Private,
    Shared,
    Community,
    Public,
}

impl Visibility {
    pub(super) fn parse(word: &str) -> Option<Self> {
        let all = [Self::Private, Self::Shared, Self::Community, Self::Public];
        all.into_iter().find(|known| known.name() == word)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Shared => "shared",
            Self::Community => "community",
            Self::Public => "public",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Queued,
    Active,
    Deactivated,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Active => "active",
            Self::Deactivated => "deactivated",
        }
    }
}

/// An uploaded file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) bytes: Bytes,
    /// MD5, hexadecimal.
    pub(super) checksum: String,
    /// SHA-512, hexadecimal.
    pub(super) hash: String,
}

/// A project with which a shared image is shared.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Usually a project's id; Glance does not check it.
    pub(super) project: String,
    pub(super) status: &'static str,
    pub(super) created: DateTime<Utc>,
    pub(super) updated: DateTime<Utc>,
    /// Whether it is deleted. Deleted members stay in the database.
    pub(super) deleted: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) id: Uuid,
    pub(super) name: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) visibility: Visibility,
    pub(super) status: Status,
    pub(super) protected: bool,
    pub(super) hidden: bool,
    pub(super) disk_format: Option<String>,
    pub(super) container_format: Option<String>,
    /// GiB.
    pub(super) min_disk: i64,
    /// MiB.
    pub(super) min_ram: i64,
    pub(super) tags: BTreeSet<String>,
    /// Free properties; all are strings.
    pub(super) properties: Map<String, Value>,
    pub(super) created: DateTime<Utc>,
    pub(super) updated: DateTime<Utc>,
    /// Whether it is deleted. Deleted images stay in the database, so their ids cannot be used again.
    pub(super) deleted: bool,
    pub(super) file: Option<File>,
    /// In the order in which they were first added.
    pub(super) members: Vec<Member>,
}

/// Compares text as the database does: ignoring case and trailing blanks.
pub(super) fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches(' ').to_lowercase() == other.trim_end_matches(' ').to_lowercase()
}

/// Truncates a time to whole seconds, as the database does.
pub(super) fn seconds(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(0)
}

fn timestamp(at: DateTime<Utc>) -> Value {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

impl Image {
    pub(super) fn new(id: Uuid, owner: Option<String>, now: DateTime<Utc>) -> Self {
        Self {
            id,
            name: None,
            owner,
            visibility: Visibility::Shared,
            status: Status::Queued,
            protected: false,
            hidden: false,
            disk_format: None,
            container_format: None,
            min_disk: 0,
            min_ram: 0,
            tags: BTreeSet::new(),
            properties: Map::new(),
            created: seconds(now),
            updated: seconds(now),
            deleted: false,
            file: None,
            members: Vec::new(),
        }
    }

    pub(super) fn owned_by(&self, caller: &Caller) -> bool {
        self.owner
            .as_deref()
            .is_some_and(|owner| *owner == *caller.project)
    }

    /// Returns a member, unless it is deleted.
    pub(super) fn member(&self, project: &str) -> Option<&Member> {
        let mut members = self.members.iter().filter(|member| !member.deleted);
        members.find(|member| same(&member.project, project))
    }

    /// Whether the caller may see it. Lists show fewer images.
    pub(super) fn visible(&self, caller: &Caller) -> bool {
        let open = match self.visibility {
            Visibility::Public | Visibility::Community => true,
            Visibility::Shared => self.member(&caller.project).is_some(),
            Visibility::Private => false,
        };
        open || caller.admin || self.owner.is_none() || self.owned_by(caller)
    }

    /// Returns the size in bytes. It is unknown while the image waits for its file, even after a failed
    /// upload.
    pub(super) fn size(&self) -> Option<usize> {
        let file = self.file.as_ref()?;
        (self.status != Status::Queued).then(|| file.bytes.len())
    }

    /// Returns the disk's size in bytes; known only for raw images.
    pub(super) fn virtual_size(&self) -> Option<usize> {
        let raw = self.disk_format.as_deref() == Some("raw");
        self.size().filter(|size| raw && *size > 0)
    }

    pub(super) fn checksum(&self) -> Option<&str> {
        self.file.as_ref().map(|file| file.checksum.as_str())
    }

    pub(super) fn hash(&self) -> Option<&str> {
        self.file.as_ref().map(|file| file.hash.as_str())
    }

    pub(super) fn view(&self) -> Value {
        let mut shown = self.properties.clone();
        let path = format!("/v2/images/{}", self.id);
        let own = json!({
            "name": self.name,
            "disk_format": self.disk_format,
            "container_format": self.container_format,
            "visibility": self.visibility.name(),
            "size": self.size(),
            "virtual_size": self.virtual_size(),
            "status": self.status.name(),
            "checksum": self.checksum(),
            "protected": self.protected,
            "min_ram": self.min_ram,
            "min_disk": self.min_disk,
            "owner": self.owner,
            "os_hidden": self.hidden,
            "os_hash_algo": self.file.as_ref().map(|_| "sha512"),
            "os_hash_value": self.hash(),
            "id": self.id,
            "created_at": timestamp(self.created),
            "updated_at": timestamp(self.updated),
            "tags": self.tags,
            "self": path,
            "file": format!("{path}/file"),
            "schema": "/v2/schemas/image",
        });
        if let Value::Object(own) = own {
            shown.extend(own);
        }
        if self.file.is_some() {
            shown.insert("stores".to_owned(), "files".into());
        }
        Value::Object(shown)
    }

    pub(super) fn member_view(&self, member: &Member) -> Value {
        json!({
            "member_id": member.project,
            "image_id": self.id,
            "status": member.status,
            "created_at": timestamp(member.created),
            "updated_at": timestamp(member.updated),
            "schema": "/v2/schemas/member",
        })
    }
}
