//! Handles kinds that a service does not show to the login. Resources of some hidden kinds also show in resources of
//! another kind (`shown_by`): if none shows there, the plan does not need the hidden list. If a service shows a
//! project's resources to few logins of other projects, or to none, the plan is made without the list, and says so.

use std::collections::BTreeMap;

use super::Planner;
use super::listed_rows::ListedRow;
use crate::domain::kinds::{Kind, OnDelete, Reference};
use crate::domain::model::{KindName, Refusal, RefusalRule, ResourceKey, Site};
use crate::domain::query::Lookup;

impl<'k> Planner<'k> {
    /// Whether the plan can be made without a lookup that the service refuses. It can if the service shows the kind to
    /// few logins of other projects or to none, or if everything that the lookup could find shows elsewhere or stays
    /// anyway.
    pub fn can_do_without(&self, lookup: &Lookup) -> bool {
        (self.kind(&lookup.kind)).is_some_and(Kind::is_hidden_from_others)
            || self.is_asked_only(lookup, |reference| {
                reference.shown_by.is_some() || self.only_informs(reference)
            })
    }

    /// Whether all resources that a lookup finds stay in any case and only lose a reference, so that the plan lists
    /// them only for people.
    pub fn is_for_people(&self, lookup: &Lookup) -> bool {
        self.is_asked_only(lookup, |reference| self.only_informs(reference))
    }

    fn only_informs(&self, reference: &Reference) -> bool {
        let with = reference.released_by;
        reference.on_delete == OnDelete::Unset
            && reference.partial
            && with.is_some_and(|option| !option.is_given(self.options))
    }

    /// Whether all references that request a lookup meet a condition.
    fn is_asked_only(&self, lookup: &Lookup, meets: impl Fn(&Reference) -> bool) -> bool {
        let key = lookup.filter.as_ref().map(|filter| filter.key.as_str());
        let goes = |to: &KindName| {
            let mut going = self.going.keys();
            going.any(|it| it.kind == *to && it.site == lookup.site)
        };
        let asks = |reference: &&Reference| {
            let by = reference.find.as_ref().map(|find| find.key.as_str());
            goes(&reference.to) && (key.is_none() || by == key)
        };
        let referrers = self.kinds.iter();
        let referrers = referrers.filter(|kind| self.kinds.listed(kind).name == lookup.kind);
        let mut asked = referrers.flat_map(|kind| kind.spec.references.iter().filter(asks));
        asked.all(meets)
    }

    /// Records that the service does not show the kind of a lookup to the login, with the service's message.
    pub fn not_shown(&mut self, lookup: &Lookup, why: String) {
        let at = (lookup.site.clone(), lookup.kind.clone());
        self.not_shown.insert(at, why);
    }

    /// Returns the resources which show that a resource of the hidden kind `unseen` exists.
    fn shows_unseen<'p>(
        &'p self,
        site: &'p Site,
        unseen: &'p KindName,
    ) -> impl Iterator<Item = (&'p ResourceKey, &'p Reference)> {
        let shown_by = move |kind: &KindName| {
            let unseen = self.kinds.get(unseen);
            let references = unseen.map(|unseen| unseen.spec.references.as_slice());
            let mut references = references.unwrap_or_default().iter();
            references.any(|it| it.shown_by.as_ref() == Some(kind))
        };
        let shows = move |resource: &ListedRow, kind: &'k Kind| {
            let mut references = kind.spec.references.iter();
            references.find(|it| it.to == *unseen && resource.facts.hold(&it.when))
        };
        let seen = self.listed_rows.iter();
        seen.filter(move |(key, _)| key.site == *site && shown_by(&key.kind))
            .filter_map(move |(key, resource)| {
                let kind = self.kind(&key.kind)?;
                Some((&**key, shows(resource, kind)?))
            })
    }

    /// Refuses each listed resource which shows that a resource of a hidden kind exists.
    pub(super) fn refuse_unlistable_dependents(&self) -> impl Iterator<Item = Refusal> {
        self.not_shown
            .iter()
            .flat_map(move |((site, unseen), why)| {
                let shown = self.shows_unseen(site, unseen);
                shown.map(move |(key, reference)| {
                    let (called, says) = (self.called(key), &reference.says);
                    let reason =
                        format!("{called} {says} a {unseen} that this login cannot list: {why}");
                    self.refusal(key, RefusalRule::NotShown, reason, None)
                })
            })
    }

    /// Refuses targets that may only be deleted when they are empty, if a service does not show whether they
    /// will be (N19).
    pub(super) fn perhaps_not_empty(&self) -> impl Iterator<Item = Refusal> {
        let own = self.not_shown.iter();
        let own =
            own.filter(|((_, kind), _)| self.kind(kind).is_some_and(Kind::is_hidden_from_others));
        own.flat_map(move |((site, _), why)| {
            let targets = self.targets.iter().filter(move |it| it.site == *site);
            let emptied = targets.filter(|it| {
                self.kind(&it.kind)
                    .is_some_and(|kind| kind.spec.stays.is_some())
                    && !self.stays(self.first_of(it))
            });
            emptied.map(move |target| {
                let reason = format!(
                    "gone cannot tell whether {} will be empty: {why}",
                    self.called(target)
                );
                self.refusal(target, RefusalRule::InUse, reason, None)
            })
        })
    }

    /// Returns the warnings about kinds that could not be listed and of which no listed resource shows one. There is
    /// one line for each reason, or two if some of its kinds have a reference with `shown_by` and others have none.
    pub(super) fn unlisted_warnings(&self) -> impl Iterator<Item = String> {
        let none_shows = |site, unseen| self.shows_unseen(site, unseen).next().is_none();
        let mut hidden: BTreeMap<(&str, bool), Vec<&str>> = BTreeMap::new();
        for ((site, unseen), why) in &self.not_shown {
            if none_shows(site, unseen) {
                let references = self.kind(unseen).map(|kind| &kind.spec.references);
                let mut references = references.into_iter().flatten();
                let shows_elsewhere = references.any(|it| it.shown_by.is_some());
                let kinds = hidden.entry((why, shows_elsewhere)).or_default();
                kinds.push(unseen.as_str());
            }
        }
        hidden.into_iter().map(|((why, shows_elsewhere), kinds)| {
            let none = match shows_elsewhere {
                true => "; no listed resource indicates that there is one",
                false => "",
            };
            format!("not looked at: {}: {why}{none}", kinds.join(", "))
        })
    }
}
