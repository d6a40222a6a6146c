//! Targets as people write them: `KIND/ID-or-NAME[@CLOUD[/REGION]]`.
//!
//! 1. The kind ends at the first `/`.
//! 2. The site starts at the last `@`, if the name of a known cloud or deployment follows it; else the `@` is part
//!    of the name. A cloud without a region means all of its regions.
//! 3. `%` and two hex digits stand for one byte of UTF-8, in every part; a bare `%` is an error.
//! 4. Commas join the parts of a composite id: `static_route/ROUTER,10.0.0.0/8,NEXTHOP@prod/RegionOne`.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use crate::domain::model::Site;

/// A target as a person wrote it: `network/web@prod/RegionOne`. The engine resolves the target. It refuses a name that
/// fits several resources, and lists these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpec {
    pub kind: String,
    /// An id, a composite id, or a name.
    pub id_or_name: String,
    #[serde(default)]
    pub site: SiteSpec,
}

/// The sites at which a target is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteSpec {
    /// Every site that this engine manages.
    #[default]
    All,
    /// Every region of this cloud, or the deployment of this name.
    Cloud(Arc<str>),
    Region(Site),
}

impl SiteSpec {
    /// Whether the given site is one of these sites.
    pub fn matches(&self, site: &Site) -> bool {
        match (self, site) {
            (Self::All, _) => true,
            (Self::Cloud(wanted), Site::Region { cloud, .. }) => wanted == cloud,
            (Self::Cloud(wanted), Site::Deployment { name }) => wanted == name,
            (Self::Region(wanted), site) => wanted == site,
        }
    }

    /// Reads `CLOUD[/REGION]` or the name of a deployment, with `%` escapes. The error is for the person who wrote the
    /// text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (cloud, region) = match text.split_once('/') {
            Some((cloud, region)) => (cloud, Some(region)),
            None => (text, None),
        };
        let cloud = decode(cloud)?;
        if cloud.is_empty() {
            return Err(format!(
                "\"{text}\" names no cloud; write CLOUD or CLOUD/REGION"
            ));
        }
        match region.map(decode).transpose()? {
            None => Ok(Self::Cloud(cloud.into())),
            Some(region) if region.is_empty() => Err(format!(
                "\"{text}\" names no region after the /; leave the / out for all regions"
            )),
            Some(region) => Ok(Self::Region(Site::region(&cloud, &region))),
        }
    }
}

impl TargetSpec {
    /// Parses a target. Errors are for the person who wrote the text, and quote it.
    pub fn parse<S: AsRef<str>>(text: &str, known_clouds: &[S]) -> Result<Self, String> {
        let Some((kind, rest)) = text.split_once('/') else {
            return Err(format!(
                "say what kind \"{text}\" is, for example network/{text}: write KIND/ID-or-NAME, or \
                 KIND/ID-or-NAME@CLOUD/REGION"
            ));
        };
        let (id_or_name, site) = match rest.rsplit_once('@') {
            Some((before, after)) if starts_with_cloud(after, known_clouds) => {
                (before, SiteSpec::parse(after)?)
            }
            _ => (rest, SiteSpec::All),
        };
        let spec = Self {
            kind: decode(kind)?,
            id_or_name: decode(id_or_name)?,
            site,
        };
        if spec.kind.is_empty() {
            return Err(format!("\"{text}\" names no kind before the /"));
        }
        if spec.id_or_name.is_empty() {
            return Err(format!("\"{text}\" names no resource after the /"));
        }
        Ok(spec)
    }
}

fn starts_with_cloud<S: AsRef<str>>(text: &str, known_clouds: &[S]) -> bool {
    let cloud = text.split_once('/').map_or(text, |(cloud, _)| cloud);
    decode(cloud).is_ok_and(|cloud| known_clouds.iter().any(|known| known.as_ref() == cloud))
}

fn decode(part: &str) -> Result<String, String> {
    let bytes = part.as_bytes();
    let is_escape = |at: usize| {
        bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit)
            && bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit)
    };
    if part.match_indices('%').any(|(at, _)| !is_escape(at)) {
        return Err(format!("\"{part}\" has a bare %; write it as %25"));
    }
    percent_decode_str(part)
        .decode_utf8()
        .map(|text| text.into_owned())
        .map_err(|_| format!("the % escapes in \"{part}\" are not UTF-8"))
}

/// Writes a text that parses back to the same target, as long as the target's own cloud is known.
impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, &self.kind, &['/'])?;
        f.write_char('/')?;
        encode(f, &self.id_or_name, &['@'])?;
        match &self.site {
            SiteSpec::All => Ok(()),
            site => write!(f, "@{site}"),
        }
    }
}

/// `cloud/region`, `cloud`, or `*` for all.
impl fmt::Display for SiteSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_char('*'),
            Self::Cloud(cloud) | Self::Region(Site::Deployment { name: cloud }) => {
                encode(f, cloud, &['/', '@'])
            }
            Self::Region(Site::Region { cloud, region }) => {
                encode(f, cloud, &['/', '@'])?;
                f.write_char('/')?;
                encode(f, region, &['@'])
            }
        }
    }
}

/// Escapes `%`, control characters, and the characters that would end the part.
fn encode(f: &mut fmt::Formatter<'_>, part: &str, ends: &[char]) -> fmt::Result {
    for c in part.chars() {
        if c == '%' || c.is_control() || ends.contains(&c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                write!(f, "%{byte:02X}")?;
            }
        } else {
            f.write_char(c)?;
        }
    }
    Ok(())
}
