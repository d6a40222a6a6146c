//! Queries become pages: of the ledger, and of fresh listings of the clouds.

use super::control_service::ledger_error;
use super::{PAGE_MAX, Shared};
use crate::cloud::{CloudFailure, Fields, ListRows};
use crate::control::{ControlError, KindInfo, Page, Query, SiteListing, SiteProgress};
use crate::domain::filter::SearchQuery;
use crate::domain::model::{ErrorClass, Phase, Resource, Site};
use crate::ledger::{
    Cursor, DeletionFilter, EventFilter, LedgerError, StepFilter, TombstoneFilter,
};

/// Wider than any screen.
const COLUMNS_MAX: u32 = 1_000;

impl Shared {
    pub(super) async fn answer(&self, query: Query) -> Result<Page, ControlError> {
        match query {
            Query::Deletions {
                states,
                site,
                kind,
                older_than,
                cursor,
                limit,
            } => {
                let filter = DeletionFilter {
                    states,
                    site,
                    kind,
                    older_than,
                    oldest_first: false,
                };
                let page = self
                    .ledger
                    .deletions(filter, page_of(cursor, limit))
                    .await
                    .map_err(ledger_error)?;
                Ok(Page::Deletions {
                    rows: page.rows,
                    next: page.next,
                })
            }
            Query::PointsAt { question } => Ok(Page::Answers {
                answers: self.points_at(question).await?,
            }),
            Query::Deployments => Ok(Page::Deployments {
                rows: self.deployment_statuses().await?,
            }),
            Query::Deletion { id } => Ok(Page::Deletion {
                row: Box::new(self.deletion(&id).await?),
            }),
            Query::Steps {
                deletion_id,
                states,
                site,
                kind,
                older_than,
                cursor,
                cause,
                filter,
                limit,
            } => {
                let deletion_id = match deletion_id {
                    Some(id) => Some(self.deletion(&id).await?.id),
                    None => None,
                };
                let filter = StepFilter {
                    deletion_id,
                    states,
                    site,
                    kind,
                    older_than,
                    cause,
                    text: self.text(&filter),
                };
                let page = self
                    .ledger
                    .steps(filter, page_of(cursor, limit))
                    .await
                    .map_err(ledger_error)?;
                Ok(Page::Steps {
                    rows: page.rows,
                    next: page.next,
                })
            }
            Query::StepCount {
                deletion_id,
                states,
                cause,
                filter,
                cursor,
            } => {
                let filter = StepFilter {
                    deletion_id,
                    states,
                    cause,
                    text: self.text(&filter),
                    ..StepFilter::default()
                };
                let counted = self.ledger.count_steps(filter, cursor).await;
                let (steps, next) = counted.map_err(ledger_error)?;
                Ok(Page::StepCount { steps, next })
            }
            Query::Outline {
                deletion_id,
                mut below,
            } => {
                let deletion = self.deletion(&deletion_id).await?;
                below.truncate(PAGE_MAX);
                let outline = self.ledger.outline(&deletion.id, below).await;
                Ok(Page::Outline {
                    outline: outline.map_err(ledger_error)?,
                })
            }
            Query::BranchSteps {
                deletion_id,
                branch,
                counts,
                from,
                limit,
            } => {
                let deletion = self.deletion(&deletion_id).await?;
                let steps = self
                    .ledger
                    .branch_steps(&deletion.id, branch, counts, from, limit);
                Ok(Page::Steps {
                    rows: steps.await.map_err(ledger_error)?,
                    next: None,
                })
            }
            Query::Native {
                kind,
                by,
                cursor,
                limit,
            } => self.kept(&kind, by, cursor, limit).await,
            Query::Progress { deletion_id } => {
                let deletion = self.deletion(&deletion_id).await?;
                let progress = self.ledger.progress(&deletion.id).await;
                let progress = progress.map_err(ledger_error)?.into_iter();
                Ok(Page::Progress {
                    rows: progress
                        .map(|(site, counts)| SiteProgress { site, counts })
                        .collect(),
                })
            }
            Query::Gantt {
                deletion_id,
                columns,
            } => {
                let deletion = self.deletion(&deletion_id).await?;
                let (columns, now) = (columns.min(COLUMNS_MAX), self.clock.now());
                let chart = self.ledger.gantt(&deletion.id, columns, now).await;
                let chart = chart.map_err(ledger_error)?;
                Ok(Page::Gantt {
                    chart: chart.ok_or_else(|| ControlError::NotFound {
                        message: format!("no deletion {}", deletion.id),
                    })?,
                })
            }
            Query::Upcoming => {
                let upcoming = self.ledger.upcoming(self.clock.now()).await;
                Ok(Page::Upcoming {
                    upcoming: upcoming.map_err(ledger_error)?,
                })
            }
            Query::Causes { sites } => Ok(Page::Causes {
                rows: self.ledger.causes(sites).await.map_err(ledger_error)?,
            }),
            Query::Step { id } => {
                let step = self.ledger.step(id).await.map_err(ledger_error)?;
                let row = step.ok_or_else(|| ControlError::NotFound {
                    message: format!("no step {id}"),
                })?;
                Ok(Page::Step { row: Box::new(row) })
            }
            Query::Timeline {
                deletion_id,
                step_id,
                after,
            } => {
                let deletion_id = match deletion_id {
                    Some(id) => Some(self.deletion(&id).await?.id),
                    None => None,
                };
                let filter = EventFilter {
                    deletion_id,
                    step_id,
                };
                let page = self
                    .ledger
                    .events(after, filter, PAGE_MAX)
                    .await
                    .map_err(ledger_error)?;
                Ok(Page::Events { rows: page.events })
            }
            Query::Tombstones {
                site,
                kind,
                phases,
                id,
                cursor,
                limit,
            } => {
                let filter = TombstoneFilter {
                    site,
                    kind,
                    phases,
                    id,
                };
                let page = self
                    .ledger
                    .tombstones(filter, page_of(cursor, limit))
                    .await
                    .map_err(ledger_error)?;
                Ok(Page::Tombstones {
                    rows: page.rows,
                    next: page.next,
                })
            }
            Query::Plan { hash } => Ok(Page::Plan {
                plan: self.saved_plan(&hash).await?,
            }),
            Query::FrozenPlan {
                deletion_id,
                without_steps,
            } => {
                let deletion = self.deletion(&deletion_id).await?;
                let plan = self
                    .ledger
                    .frozen(&deletion.id, !without_steps)
                    .await
                    .map_err(ledger_error)?;
                let plan = plan.ok_or_else(|| ControlError::NotFound {
                    message: format!(
                        "deletion {} has no plan: it is {}",
                        deletion.id,
                        deletion.state.as_str()
                    ),
                })?;
                Ok(Page::Plan { plan })
            }
            Query::Resources { kind, site } => Ok(Page::Resources {
                listings: self.resources(&kind, site).await?,
            }),
            Query::Explain { target } => Ok(Page::Explanation {
                explanation: Box::new(self.explain(&target).await?),
            }),
            Query::Ladder { what } => Ok(Page::Ladder {
                ladder: Box::new(self.ladder(&what).await?.ladder),
            }),
            Query::Orphans { cursor, limit } => {
                let (rows, next) = self.orphans(page_of(cursor, limit)).await?;
                Ok(Page::Orphans { rows, next })
            }
            Query::Sites => Ok(Page::Sites {
                rows: self.sites.statuses(),
            }),
            Query::Gates => Ok(Page::Gates {
                rows: self.gates.statuses(),
            }),
            Query::Kinds => Ok(Page::Kinds {
                rows: self.kind_infos(),
            }),
            Query::ShownBefore { key } => Ok(Page::ShownBefore {
                row: self.ledger.shown_before(key).await.map_err(ledger_error)?,
            }),
            Query::Namesake {
                site,
                kind,
                name,
                project_id,
            } => Ok(Page::Original {
                row: self.namesake(&site, &kind, &name, &project_id).await?,
            }),
            Query::WholeOf { part } => Ok(Page::Original {
                row: self.ledger.whole_of(part).await.map_err(ledger_error)?,
            }),
            Query::NotificationCursor { channel } => Ok(Page::NotificationCursor {
                told: self
                    .ledger
                    .notification_cursor(&channel)
                    .await
                    .map_err(ledger_error)?,
            }),
            Query::Audit { after } => {
                let rows = self
                    .ledger
                    .audit(after, PAGE_MAX)
                    .await
                    .map_err(ledger_error)?;
                let rows = rows
                    .iter()
                    .map(serde_json::to_value)
                    .collect::<Result<_, _>>();
                rows.map(|rows| Page::Audit { rows })
                    .map_err(|error| ControlError::Internal {
                        message: error.to_string(),
                    })
            }
        }
    }

    fn kind_infos(&self) -> Vec<KindInfo> {
        self.kinds
            .iter()
            .map(|kind| KindInfo {
                name: kind.name.clone(),
                aliases: kind.spec.aliases.clone(),
                columns: kind.spec.columns.clone(),
                has_dependents: self.kinds.referrers(&kind.name).next().is_some(),
            })
            .collect()
    }

    /// A fresh listing at each site; what is being deleted is shown so (T7).
    async fn resources(
        &self,
        word: &str,
        site: Option<Site>,
    ) -> Result<Vec<SiteListing>, ControlError> {
        let kind = self
            .kinds
            .resolve(word)
            .map_err(|message| ControlError::Usage { message })?;
        let spec = site.map_or(
            crate::control::SiteSpec::All,
            crate::control::SiteSpec::Region,
        );
        let sites = self.sites_with(kind, &spec)?;
        let listed = self.kinds.listed(kind);
        let listings = sites.iter().map(|site| async move {
            let request = ListRows {
                site,
                kind: listed,
                filter: None,
                fields: Fields::All,
                rows_max: None,
            };
            // For people, who see the failure and ask again: paced, and not repeated.
            let permit = self.sites.permit(site).await;
            let listing = self.cloud.list(request).await;
            drop(permit);
            self.site_answered(site, listing.as_ref().err());
            let mut class = listing.as_ref().err().map(class_of);
            let (mut rows, mut error) = match listing {
                Ok(listing) => {
                    let found = listing
                        .rows
                        .iter()
                        .flat_map(|row| self.kinds.resources_in(site, listed, row));
                    (
                        found.filter(|found| found.key.kind == kind.name).collect(),
                        None,
                    )
                }
                Err(failure) => (Vec::new(), Some(failure.message)),
            };
            if kind.spec.unknown.is_some()
                && error.is_none()
                && let Err(failure) = self.tally(site, kind, &mut rows).await
            {
                class = Some(class_of(&failure));
                error = Some(format!(
                    "what belongs to these is not known: {}",
                    failure.message
                ));
            }
            if let Err(unread) = self.mark_deleting(&mut rows).await {
                error = Some(format!(
                    "which of these are being deleted is not known: {unread}"
                ));
            }
            SiteListing {
                site: site.clone(),
                rows,
                error,
                class,
                at: self.clock.now(),
            }
        });
        Ok(futures_util::future::join_all(listings).await)
    }

    /// Shows the state of what is being deleted as its kind says.
    async fn mark_deleting(&self, rows: &mut [Resource]) -> Result<(), LedgerError> {
        let keys = rows.iter().map(|row| row.key.clone()).collect();
        let tombstones = self.ledger.tombstones_of(keys).await?;
        let doomed: std::collections::HashSet<_> = tombstones
            .into_iter()
            .filter(|tombstone| tombstone.phase == Phase::Deleting)
            .map(|tombstone| tombstone.key)
            .collect();
        for row in rows.iter_mut().filter(|row| doomed.contains(&row.key)) {
            let shown = self
                .kinds
                .get(&row.key.kind)
                .map(|kind| kind.spec.deleting.clone())
                .unwrap_or_default();
            if let serde_json::Value::Object(fields) = &mut row.attributes {
                fields.extend(
                    shown
                        .into_iter()
                        .map(|(field, value)| (field, value.into())),
                );
            }
        }
        Ok(())
    }
}

impl Shared {
    /// What a person looks for, with ages counted from now.
    fn text(&self, filter: &str) -> SearchQuery {
        let mut filter = SearchQuery::parse(filter);
        filter.at(self.clock.now());
        filter
    }
}

/// That a service does not show something to a login is a matter of its rights.
fn class_of(failure: &CloudFailure) -> ErrorClass {
    match failure.status {
        Some(403) => ErrorClass::Auth,
        _ => failure.class,
    }
}

fn page_of(after: Option<String>, limit: usize) -> Cursor {
    Cursor {
        after,
        limit: if limit == 0 {
            PAGE_MAX
        } else {
            limit.min(PAGE_MAX)
        },
    }
}
