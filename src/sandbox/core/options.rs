//! The options of a world.
use std::time::Duration;

/// Options of a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The names of the regions, at least one. Each has its own services, below `/{region}/network` and so on.
    pub regions: Vec<String>,
    /// Seed of all ids: the same calls create the same ids.
    pub seed: u64,
    /// Whether a POST may name the id of the new resource.
    pub keep_ids: bool,
    /// Scheme and host of the catalog's URLs, e.g. `http://127.0.0.1:9000`.
    pub base_url: String,
    /// Lifetime of a token.
    pub token_lifetime: Duration,
    /// Neutron's `pagination_max_limit`: the most rows on a page, also if the call has no `limit`.
    pub page_max: Option<usize>,
    /// Whether an image's deleted member can be added again; otherwise Glance reports a duplicate, as on
    /// databases whose unique key is image and member alone.
    pub member_reuse: bool,
    /// Whether Nova keeps a deleted server, so that it can be restored (`reclaim_instance_interval`).
    pub soft_delete: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            regions: vec!["RegionOne".to_owned()],
            seed: 1,
            keep_ids: false,
            base_url: "http://sandbox.invalid".to_owned(),
            token_lifetime: Duration::from_secs(4 * 60 * 60),
            page_max: None,
            member_reuse: true,
            soft_delete: false,
        }
    }
}
