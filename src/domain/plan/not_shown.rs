//! Kinds that a service does not show to the login. If each of their resources also shows in a resource of
//! another service, a plan without any such resource does not need the hidden list.

use super::Planner;
use super::listed_rows::ListedRow;
use crate::domain::kinds::{Kind, Reference};
use crate::domain::model::{KindName, Refusal, RefusalRule, ResourceKey, Site};
use crate::domain::query::Lookup;

impl<'k> Planner<'k> {
    /// Whether everything that a lookup could find would also show elsewhere.
    pub fn can_do_without(&self, lookup: &Lookup) -> bool {
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
        asked.all(|reference| reference.shown_by.is_some())
    }

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
        let seen = self.seen.iter();
        seen.filter(move |(key, _)| key.site == *site && shown_by(&key.kind))
            .filter_map(move |(key, resource)| {
                let kind = self.kind(&key.kind)?;
                Some((&**key, shows(resource, kind)?))
            })
    }

    pub(super) fn in_the_way_unseen(&self) -> impl Iterator<Item = Refusal> {
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

    pub(super) fn not_looked_at(&self) -> impl Iterator<Item = String> {
        let none_shows = |site, unseen| self.shows_unseen(site, unseen).next().is_none();
        let not_shown = self.not_shown.iter();
        let not_shown = not_shown.filter(move |((site, unseen), _)| none_shows(site, unseen));
        not_shown.map(|((_, unseen), why)| {
            format!(
                "not looked at: {unseen}: {why}; no listed resource indicates that there is one"
            )
        })
    }
}
