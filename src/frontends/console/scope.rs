//! The scope: the part of all clouds that the console shows. It stays when another pane is opened, and a key clears it.
//!
//! A *view* is a pane with its scope and its filter, in one line: `stuck @prod/west project=demo /timeout`.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::SiteStatus;
use crate::domain::filter::{SearchQuery, exact_word};
use crate::domain::model::Site;
use crate::domain::text::did_you_mean;
use crate::present::joined;

/// The cloud, region and project that the console shows; `None` shows all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EstateScope {
    /// A cloud, or a deployment.
    pub(crate) cloud: Option<String>,
    pub(crate) region: Option<String>,
    /// The name or the id of a project.
    pub(crate) project: Option<String>,
}

/// The scope as a list applies it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AppliedScope {
    pub(crate) query: SearchQuery,
    /// The scope in words, such as `prod/west, project demo`.
    pub(crate) words: String,
}

/// The parts of a line that was typed after `:`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line<'l> {
    pub(crate) word: &'l str,
    /// The words after the first one, without those that begin with `@` or `project=`, and without the filter.
    pub(crate) rest: Vec<&'l str>,
    /// The text after `@`: a site, a cloud or a region.
    pub(crate) site: Option<&'l str>,
    pub(crate) project: Option<&'l str>,
    pub(crate) filter: Option<&'l str>,
}

impl<'l> Line<'l> {
    pub(crate) fn parse(text: &'l str) -> Self {
        let (words, filter) = match text.split_once(" /") {
            Some((words, filter)) => (words, Some(filter.trim())),
            None => (text, None),
        };
        let mut line = Self {
            filter,
            ..Self::default()
        };
        for word in words.split_whitespace() {
            if let Some(site) = word.strip_prefix('@') {
                line.site = Some(site);
            } else if let Some(project) = word.strip_prefix("project=") {
                line.project = Some(project);
            } else if line.word.is_empty() {
                line.word = word;
            } else {
                line.rest.push(word);
            }
        }
        line
    }
}

/// The names of all clouds, each once for each of its sites.
pub(crate) fn clouds(sites: &[SiteStatus]) -> impl Iterator<Item = &str> {
    sites.iter().map(|it| it.site.parts().0)
}

/// The names of all regions, each once for each site that has it.
pub(crate) fn regions(sites: &[SiteStatus]) -> impl Iterator<Item = &str> {
    sites.iter().filter_map(|it| it.site.parts().1)
}

/// All names that may follow `@`: clouds, regions and sites.
pub(crate) fn site_names(sites: &[SiteStatus]) -> BTreeSet<String> {
    let whole = sites.iter().map(|it| it.site.to_string());
    let parts = clouds(sites).chain(regions(sites)).map(str::to_owned);
    parts.chain(whole).collect()
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: BTreeSet<&str> = known.collect();
    let near = did_you_mean(name, known.iter().copied());
    let first = joined(known.iter().take(NAMED_MAX), ", ");
    let hint = match near.is_empty() {
        true if known.is_empty() => ": none is known".to_owned(),
        true => format!("; there is {first}"),
        false => near,
    };
    format!("there is no {what} \"{name}\"{hint}")
}

/// Maximum number of known names that the message about an unknown name lists.
const NAMED_MAX: usize = 6;

impl EstateScope {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Narrows the scope to a cloud. A region that the cloud does not have is dropped.
    ///
    /// # Errors
    /// No site belongs to that cloud; the message names the nearest cloud, or else up to [`NAMED_MAX`] clouds.
    pub(crate) fn set_cloud(&mut self, name: &str, sites: &[SiteStatus]) -> Result<(), String> {
        if !clouds(sites).any(|cloud| cloud == name) {
            return Err(unknown("cloud", name, clouds(sites)));
        }
        self.cloud = Some(name.to_owned());
        if !sites.iter().any(|it| self.has(&it.site)) {
            self.region = None;
        }
        Ok(())
    }

    /// Narrows the scope to a region, or to `CLOUD/REGION`. A cloud of the scope that does not have the region is
    /// dropped.
    ///
    /// # Errors
    /// There is no such region or site; the message names the nearest region, or else up to [`NAMED_MAX`] regions.
    pub(crate) fn set_region(&mut self, name: &str, sites: &[SiteStatus]) -> Result<(), String> {
        if let Some(site) = sites.iter().find(|it| it.site.to_string() == name) {
            let (cloud, region) = site.site.parts();
            (self.cloud, self.region) = (Some(cloud.to_owned()), region.map(str::to_owned));
            return Ok(());
        }
        if !regions(sites).any(|region| region == name) {
            return Err(unknown("region", name, regions(sites)));
        }
        self.region = Some(name.to_owned());
        if !sites.iter().any(|it| self.has(&it.site)) {
            self.cloud = None;
        }
        Ok(())
    }

    /// Narrows the scope to the name after `@`: a site, a cloud or a region.
    ///
    /// # Errors
    /// Sites are known, and no site, cloud or region has that name; the message names the nearest one, or else up to
    /// [`NAMED_MAX`] names.
    pub(crate) fn set_site(&mut self, name: &str, sites: &[SiteStatus]) -> Result<(), String> {
        if clouds(sites).any(|cloud| cloud == name) {
            self.region = None;
            return self.set_cloud(name, sites);
        }
        let is_region = regions(sites).any(|region| region == name);
        if is_region || sites.iter().any(|it| it.site.to_string() == name) {
            self.cloud = None;
            return self.set_region(name, sites);
        }
        if sites.is_empty() {
            // The engine has not named its sites yet, so the name cannot be checked: without `/` it is taken for the
            // name of a cloud. If the engine has no such cloud or site, no row is shown.
            let (cloud, region) = name.split_once('/').unwrap_or((name, ""));
            let region = (!region.is_empty()).then(|| region.to_owned());
            (self.cloud, self.region) = (Some(cloud.to_owned()), region);
            return Ok(());
        }
        let names = site_names(sites);
        let names = names.iter().map(String::as_str);
        Err(unknown("cloud, region or site", name, names))
    }

    /// Whether a site is in the scope.
    fn has(&self, site: &Site) -> bool {
        let (cloud, region) = site.parts();
        self.cloud.as_deref().is_none_or(|wanted| wanted == cloud)
            && (self.region.is_none() || self.region.as_deref() == region)
    }

    /// Returns a message if the project of the scope is neither the name nor the id of a known project.
    pub(crate) fn unknown_project(&self, projects: &BTreeMap<String, String>) -> Option<String> {
        let wanted = self.project.as_deref()?;
        let is_known = projects.contains_key(wanted) || projects.values().any(|it| it == wanted);
        (!is_known).then(|| unknown("project", wanted, projects.values().map(String::as_str)))
    }

    /// The scope for lists; `projects` maps ids to names.
    pub(crate) fn applied(
        &self,
        sites: &[SiteStatus],
        projects: &BTreeMap<String, String>,
    ) -> AppliedScope {
        let mut words = Vec::new();
        if self.cloud.is_some() || self.region.is_some() {
            let within = sites.iter().map(|it| &it.site).filter(|it| self.has(it));
            let mut within: Vec<String> = within.map(ToString::to_string).collect();
            if within.is_empty() {
                // The engine serves no site of the scope, so no row may match.
                within.push(self.site_words());
            }
            words.push(exact_word("site", &within));
        }
        if let Some(wanted) = &self.project {
            let named = projects.iter().filter(|(_, name)| *name == wanted);
            let ids = named.map(|(id, _)| id.clone());
            let ids: Vec<String> = [wanted.clone()].into_iter().chain(ids).collect();
            words.push(exact_word("project", &ids));
        }
        AppliedScope {
            query: SearchQuery::parse(&words.join(" ")),
            words: self.words(),
        }
    }

    /// The cloud and region of the scope, as they are written after `@`.
    fn site_words(&self) -> String {
        let parts = [self.cloud.as_deref(), self.region.as_deref()];
        joined(parts.into_iter().flatten(), "/")
    }

    fn words(&self) -> String {
        let site = Some(self.site_words()).filter(|site| !site.is_empty());
        let project = self.project.as_ref().map(|name| format!("project {name}"));
        joined(site.into_iter().chain(project), ", ")
    }

    /// The view of a pane in this scope, as [`Line::parse`] reads it.
    pub(crate) fn view(&self, word: &str, filter: &str) -> String {
        let site = Some(self.site_words()).filter(|site| !site.is_empty());
        let site = site.map(|site| format!("@{site}"));
        let project = self.project.as_ref().map(|name| format!("project={name}"));
        let filter = (!filter.is_empty()).then(|| format!("/{filter}"));
        let parts = [Some(word.to_owned()), site, project, filter];
        joined(parts.into_iter().flatten(), " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_parsed_into_its_parts() {
        let line = Line::parse("port @west project=demo /web !lab");
        assert_eq!((line.word, line.site), ("port", Some("west")));
        assert_eq!(
            (line.project, line.filter),
            (Some("demo"), Some("web !lab"))
        );
        let saves = Line::parse(" view  save night ");
        assert_eq!((saves.word, saves.rest), ("view", vec!["save", "night"]));
        assert_eq!(Line::parse("@prod").site, Some("prod"));
    }

    #[test]
    fn a_view_is_written_as_a_command_line_that_parses_back() {
        let scope = EstateScope {
            cloud: Some("prod".to_owned()),
            region: Some("west".to_owned()),
            project: Some("demo".to_owned()),
        };
        let view = scope.view("stuck", "timeout");
        assert_eq!(view, "stuck @prod/west project=demo /timeout");
        let line = Line::parse(&view);
        assert_eq!(line.site, Some("prod/west"));
        assert_eq!(EstateScope::default().view("home", ""), "home");
    }
}
