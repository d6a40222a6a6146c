//! Native kinds: what follows from `native` in a kinds file, and how their references are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::spec::{ActionWord, Find, KindSpec, ListSpec, OnDelete, Reference};
use super::{AnswerClass, Home, Kind, KindCalls, Kinds};
use crate::domain::model::{Action, KindName, Site, StepError};
use crate::domain::text::did_you_mean;

/// The error type for a resource that does not exist.
pub const NOT_FOUND: &str = "ResourceNotFound";
/// The error type for a resource to which another resource of the registry refers.
pub const IN_USE: &str = "ResourceInUse";
/// The field that distinguishes a re-created resource from its predecessor (I10, M1).
pub const INCARNATION: &str = "incarnation";
/// The fields that every native resource has in addition to the fields of its kind.
const COMMON: [&str; 8] = [
    "created_at",
    "id",
    INCARNATION,
    "name",
    "project_id",
    "status",
    "tags",
    "updated_at",
];

impl Kind {
    /// Whether a deployment keeps the kind's resources in its registry.
    pub fn is_native(&self) -> bool {
        self.spec.native.is_some()
    }
}

impl Kinds {
    /// Returns the same kinds for the deployment `home`.
    #[must_use]
    pub fn at_home(self, home: Option<Home>) -> Self {
        Self { home, ..self }
    }

    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// Whether this engine deletes the resources at the site, because the site is a region of a cloud or this
    /// deployment.
    pub fn is_ours(&self, site: &Site) -> bool {
        site.cloud().is_some() || self.home.as_ref().is_some_and(|home| home.site == *site)
    }

    /// Returns the site of the resources of this kind that may refer to resources at `site`; none if this
    /// deployment has no such resources.
    pub fn referring_site<'s>(&'s self, kind: &Kind, site: &'s Site) -> Option<&'s Site> {
        match kind.is_native() {
            false => Some(site).filter(|site| site.cloud().is_some()),
            true => {
                let home = self.home.as_ref()?;
                (kind.service == home.service).then_some(&home.site)
            }
        }
    }

    /// Whether resources of this kind can be at this site.
    pub fn may_be_at(&self, kind: &Kind, site: &Site) -> bool {
        self.referring_site(kind, site) == Some(site)
    }

    /// Returns the native kinds and their fields whose references to this kind block the target in the same registry.
    /// Asynchronous references are not among them: another deletion handles the referrers, and their deployment
    /// gives its clearance before the target is deleted.
    pub fn blocking_fields(&self, to: &KindName) -> Arc<[(KindName, String)]> {
        let holding = self.referrers(to).filter(|(kind, reference)| {
            kind.is_native() && reference.on_delete != OnDelete::Dangling && !reference.asynchronous
        });
        let fields = holding.filter_map(|(kind, reference)| {
            let field = reference.field.as_deref().map(base)?;
            Some((kind.name.clone(), field.to_owned()))
        });
        fields.collect()
    }

    /// Returns the native kinds of this service.
    pub fn native_of<'k>(&'k self, service: &'k str) -> impl Iterator<Item = &'k Kind> {
        let native = self.iter().filter(|kind| kind.is_native());
        native.filter(move |kind| kind.service == service)
    }
}

impl KindSpec {
    /// Whether a reference's field is required and so cannot be unset.
    pub fn requires(&self, reference: &Reference) -> bool {
        let field = reference.field.as_deref().map(base);
        let native = self.native.as_ref().zip(field);
        native
            .and_then(|(native, field)| native.fields.get(field))
            .is_some_and(|field| field.required)
    }
}

/// Splits the value of a native kind's reference: the target's id, followed by `@` and the target's site if that is not
/// the referrer's own site. The id has no `@`.
pub fn referred(value: &str) -> (&str, Option<Site>) {
    match value.rsplit_once('@') {
        Some((id, site)) => {
            let Ok(site) = site.parse();
            (id, Some(site))
        }
        None => (value, None),
    }
}

/// Returns the value by which a resource at `home` refers to `id` at `site`.
pub fn refer_to(id: &str, site: &Site, home: &Site) -> String {
    match site == home {
        true => id.to_owned(),
        false => format!("{id}@{site}"),
    }
}

/// Returns a field's name without the `[]` that steps into its array.
pub fn base(field: &str) -> &str {
    field.strip_suffix("[]").unwrap_or(field)
}

/// Maximum number of values of a filter in one query to the ledger.
const VALUES_A_LIST: usize = 140;

/// The calls of a native kind, which the registry of its deployment answers.
#[derive(Debug)]
pub(super) struct RegistryCalls {
    pub(super) kind: KindName,
}

impl KindCalls for RegistryCalls {
    fn validate(&self, _: &Kind) -> Result<(), String> {
        Ok(())
    }

    fn can(&self, action: Action) -> bool {
        matches!(action, Action::Delete | Action::Unset)
    }

    fn values_per_list(&self, _: &str) -> usize {
        VALUES_A_LIST
    }

    fn meaning(&self, _: &StepError) -> Option<AnswerClass> {
        None
    }

    fn line(&self, _: Action, variables: &BTreeMap<String, String>) -> Option<String> {
        let id = variables.get("id")?;
        Some(format!("DELETE /resources/{}/{id}", self.kind))
    }
}

/// Fills in the fields of a native kind that follow from `native`: how it is listed, its incarnation, how readers are
/// shown that a resource is being deleted, the filters of its references, and its columns if the file has none.
///
/// # Errors
/// A native kind has a field or reference that cannot be combined with `native`, or another kind has one that requires
/// `native`.
pub(super) fn complete(kind: &mut Kind) -> Result<(), String> {
    let spec = &mut kind.spec;
    let Some(native) = &spec.native else {
        return match spec.references.iter().any(|it| it.asynchronous) {
            true => Err("reference: \"asynchronous\" requires \"native\"".into()),
            false => Ok(()),
        };
    };
    validate_alone(spec)?;
    if let Some(field) = native
        .fields
        .keys()
        .find(|it| COMMON.contains(&it.as_str()))
    {
        return Err(format!(
            "native.fields: every native resource already has the field \"{field}\""
        ));
    }
    for reference in &spec.references {
        validate_reference(reference, &native.fields.keys().collect::<Vec<_>>())?;
    }
    if spec.columns.is_empty() {
        let fields = native
            .fields
            .keys()
            .map(|it| (it.to_uppercase(), it.clone()));
        let name = ("NAME".to_owned(), "name".to_owned());
        spec.columns = [name].into_iter().chain(fields).collect();
    }
    for reference in &mut spec.references {
        let field = reference.field.as_deref().map(base).unwrap_or_default();
        reference.find = Some(Find {
            key: field.to_owned(),
            value: "{}".to_owned(),
            of: "id".to_owned(),
            when: BTreeMap::new(),
            in_scope: false,
        });
    }
    spec.list = Some(ListSpec::default());
    spec.incarnation = Some(INCARNATION.to_owned());
    spec.deleting = BTreeMap::from([("status".to_owned(), "DELETING".to_owned())]);
    Ok(())
}

/// Refuses fields that only a cloud's kind can have.
fn validate_alone(spec: &KindSpec) -> Result<(), String> {
    let others = [
        ("list", spec.list.is_some()),
        ("derived", spec.derived.is_some()),
        ("call", spec.call.is_some()),
        ("action", spec.action != ActionWord::Delete),
        ("stays", spec.stays.is_some()),
        ("settles", spec.settles.is_some()),
        ("enable", spec.enable.is_some()),
        ("takes", !spec.takes.is_empty()),
        ("incarnation", spec.incarnation.is_some()),
    ];
    match others.iter().find(|(_, has)| *has) {
        Some((other, _)) => Err(format!("\"{other}\" cannot be combined with \"native\"")),
        None => Ok(()),
    }
}

fn validate_reference(reference: &Reference, fields: &[&String]) -> Result<(), String> {
    let to = &reference.to;
    let Some(field) = reference.field.as_deref().map(base) else {
        return Err(format!(
            "reference to \"{to}\": a reference of a native kind needs \"field\""
        ));
    };
    if !fields.iter().any(|known| *known == field) {
        return Err(format!(
            "reference to \"{to}\": \"{field}\" is not among native.fields{}",
            did_you_mean(field, fields.iter().map(|it| it.as_str()))
        ));
    }
    let later = matches!(reference.on_delete, OnDelete::Cascade | OnDelete::Unset);
    match reference.on_delete {
        OnDelete::Automatic | OnDelete::WithCascade => Err(format!(
            "reference to \"{to}\": a cloud never deletes native resources; on_delete is one of \
             block, unset, cascade, dangling"
        )),
        _ if reference.asynchronous && !later => Err(format!(
            "reference to \"{to}\": \"asynchronous\" requires on_delete = \"cascade\" or \"unset\""
        )),
        _ => Ok(()),
    }
}
