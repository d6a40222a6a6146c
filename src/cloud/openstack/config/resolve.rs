//! Resolves the written configuration: one cloud in one region.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

use super::Origin;
use super::error::{ConfigError, did_you_mean, nearest};
use super::proxies::Proxies;
use super::raw::{RawCloud, Scalar};

/// One cloud, ready to log in to.
#[derive(Clone, Debug)]
pub struct CloudConfig {
    pub name: String,
    /// The region; none if the configuration names none.
    pub region: Option<String>,
    /// The configured regions; empty if the catalog alone decides.
    pub regions: Vec<String>,
    /// Keystone's URL, ending in `/v3`.
    pub auth_url: Url,
    pub credentials: Credentials,
    pub scope: Scope,
    pub interface: Interface,
    /// The other interfaces, in the order of preference, for services without an endpoint of `interface`.
    pub fallback_interfaces: Vec<Interface>,
    /// URL by service type, in openstacksdk's spelling with `_` (`load_balancer`).
    pub endpoint_overrides: BTreeMap<String, Url>,
    pub tls: Tls,
    /// The proxies that the environment names.
    pub proxies: Arc<Proxies>,
    pub found_in: Vec<Origin>,
}

/// How to log in. Secrets do not show in Debug.
#[derive(Clone, Debug)]
pub enum Credentials {
    Password {
        user: UserRef,
        password: SecretString,
    },
    ApplicationCredentialId {
        id: String,
        secret: SecretString,
    },
    ApplicationCredentialName {
        name: String,
        user: UserRef,
        secret: SecretString,
    },
    Token(SecretString),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRef {
    Id(String),
    Name { name: String, domain: DomainRef },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainRef {
    Id(String),
    Name(String),
}

/// The scope of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    ProjectId(String),
    ProjectName {
        name: String,
        domain: DomainRef,
    },
    Domain(DomainRef),
    System,
    /// Keystone decides: the project of an application credential, or the user's default project.
    Unscoped,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Interface {
    #[default]
    Public,
    Internal,
    Admin,
}

impl Interface {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How the cloud's certificates are checked, and which certificate gone presents to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub verify: bool,
    /// A file with a PEM bundle. If it is given, only its certificates are trusted.
    pub cacert: Option<PathBuf>,
    /// A PEM file with the certificate that gone presents. The file contains the key too if `key` is none.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

const AUTH_TYPES: [&str; 5] = [
    "password",
    "v3password",
    "v3applicationcredential",
    "token",
    "v3token",
];

/// Login types that only other clients support: by federation, OAuth, Kerberos, one-time codes or client certificates,
/// with Keystone's version 2, or without Keystone.
const ELSEWHERE: &str = "\
    v3oidcpassword v3oidcauthcode v3oidcclientcredentials v3oidcaccesstoken v3oidcdeviceauthz \
    v3totp v3multifactor v3kerberos v3fedkerb v3samlpassword v3adfspassword v3oauth1 \
    v3oauth2clientcredential v3oauth2mtlsclientcredential v3tokenlessauth v2password v2token \
    kerberos http_basic none noauth admin_token";

/// Resolves `raw` for `region`, or for the region that `raw` names itself.
pub(super) fn resolve(
    name: &str,
    raw: &RawCloud,
    region: Option<&str>,
    home: Option<&Path>,
    proxies: &Arc<Proxies>,
) -> Result<CloudConfig, ConfigError> {
    let regions = raw.region_names();
    let own = raw.fields.get("region_name").map(|r| r.text().to_owned());
    let region = region
        .map(str::to_owned)
        .or_else(|| own.filter(|own| !own.is_empty() && !own.contains(',')))
        .or_else(|| regions.first().cloned());
    let mut effective = raw.clone();
    if let (Some(listed), Some(region)) = (&raw.regions, &region) {
        let Some((_, values)) = listed.iter().find(|(listed, _)| listed == region) else {
            return Err(ConfigError::NoSuchRegion {
                origin: raw.found_in.first().cloned(),
                cloud: name.to_owned(),
                region: region.clone(),
                known: regions,
            });
        };
        effective.overlay(values.clone());
    }
    let fields = Fields {
        cloud: name,
        raw: &effective,
    };
    let credentials = fields.credentials()?;
    let mut interfaces = fields.interfaces()?.into_iter();
    Ok(CloudConfig {
        name: name.to_owned(),
        region,
        regions,
        auth_url: fields.auth_url()?,
        scope: fields.scope(&credentials)?,
        credentials,
        interface: interfaces.next().unwrap_or_default(),
        fallback_interfaces: interfaces.collect(),
        endpoint_overrides: fields.endpoint_overrides()?,
        tls: fields.tls(home)?,
        proxies: proxies.clone(),
        found_in: raw.found_in.clone(),
    })
}

/// The fields of one cloud, and the errors that name them.
struct Fields<'a> {
    cloud: &'a str,
    raw: &'a RawCloud,
}

impl Fields<'_> {
    /// Returns the first of `names` in `auth`, else the first beside `auth`. Keys of the project, of a domain of the
    /// scope or the user, and of the token are looked up beside `auth` first, as in openstacksdk (a region's `values`
    /// change the project in this way).
    fn auth(&self, names: &[&str]) -> Option<&Scalar> {
        const BESIDE_FIRST: [&str; 5] = ["project", "tenant", "domain", "user_domain", "token"];
        let mut places = [&self.raw.auth, &self.raw.fields];
        if BESIDE_FIRST.iter().any(|p| names[0].starts_with(p)) {
            places.reverse();
        }
        let mut found = places
            .iter()
            .flat_map(|scalars| names.iter().filter_map(|name| scalars.get(*name)));
        found.find(|scalar| !scalar.text().is_empty())
    }

    fn auth_text(&self, names: &[&str]) -> Option<String> {
        self.auth(names).map(|scalar| scalar.text().to_owned())
    }

    fn beside(&self, names: &[&str]) -> Option<&Scalar> {
        names.iter().find_map(|name| self.raw.fields.get(*name))
    }

    fn missing(&self, field: &str) -> ConfigError {
        ConfigError::MissingField {
            origin: self.raw.found_in.first().cloned(),
            cloud: self.cloud.to_owned(),
            field: format!("auth.{field}"),
            instead: self.raw.lookalike(field),
        }
    }

    fn bad(&self, field: &str, scalar: &Scalar, problem: String, known: &[&str]) -> ConfigError {
        ConfigError::BadField {
            origin: scalar.origin.clone(),
            cloud: self.cloud.to_owned(),
            field: field.to_owned(),
            problem: problem + &did_you_mean(&nearest(scalar.text(), known)),
        }
    }

    fn url(&self, field: &str, scalar: &Scalar) -> Result<Url, ConfigError> {
        let url = Url::parse(scalar.text().trim()).ok();
        // The value is not shown: a URL may contain a password.
        url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .filter(|url| url.username().is_empty() && url.password().is_none())
            .ok_or_else(|| {
                let problem = "must be an http:// or https:// URL without a user or password";
                self.bad(field, scalar, problem.to_owned(), &[])
            })
    }

    fn auth_url(&self) -> Result<Url, ConfigError> {
        let scalar = self.auth(&["auth_url"]);
        let scalar = scalar.ok_or_else(|| self.missing("auth_url"))?;
        let mut url = self.url("auth.auth_url", scalar)?;
        url.set_query(None);
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/');
        let base = path.strip_suffix("/v2.0").unwrap_or(path);
        let base = base.strip_suffix("/v3").unwrap_or(base).to_owned();
        url.set_path(&format!("{base}/v3"));
        Ok(url)
    }

    fn credentials(&self) -> Result<Credentials, ConfigError> {
        let secret = |names: &[&str]| {
            let found = self.auth(names).map(Scalar::secret);
            found.ok_or_else(|| self.missing(names[0]))
        };
        match self.auth_type()? {
            "v3applicationcredential" => {
                let secret = secret(&["application_credential_secret"])?;
                if let Some(id) = self.auth_text(&["application_credential_id"]) {
                    return Ok(Credentials::ApplicationCredentialId { id, secret });
                }
                let name = self.auth_text(&["application_credential_name"]);
                let name = name.ok_or_else(|| self.missing("application_credential_id"))?;
                let user = self.user()?;
                Ok(Credentials::ApplicationCredentialName { name, user, secret })
            }
            "token" | "v3token" => Ok(Credentials::Token(secret(&["token", "auth_token"])?)),
            _ => Ok(Credentials::Password {
                user: self.user()?,
                password: secret(&["password"])?,
            }),
        }
    }

    fn auth_type(&self) -> Result<&'static str, ConfigError> {
        let Some(scalar) = self.beside(&["auth_type", "auth_plugin"]) else {
            // No type is given, so the existing fields decide.
            let has = |name: &str| self.auth(&[name]).is_some();
            return Ok(if has("application_credential_secret") {
                "v3applicationcredential"
            } else if !has("password") && (has("token") || has("auth_token")) {
                "token"
            } else {
                "password"
            });
        };
        let known = AUTH_TYPES.iter().find(|known| **known == scalar.text());
        known.copied().ok_or_else(|| {
            let way_round = match scalar.text() {
                known if ELSEWHERE.split(' ').any(|it| it == known) => {
                    "; log in this way once with openstackclient, create an application \
                     credential (`openstack application credential create`), and write it into \
                     clouds.yaml"
                }
                _ => "",
            };
            let problem = format!(
                "{:?} is not supported; it may be {}{way_round}",
                scalar.text(),
                AUTH_TYPES.join(", ")
            );
            self.bad("auth_type", scalar, problem, &AUTH_TYPES)
        })
    }

    fn user(&self) -> Result<UserRef, ConfigError> {
        if let Some(id) = self.auth_text(&["user_id"]) {
            return Ok(UserRef::Id(id));
        }
        let name = self.auth_text(&["username", "user_name"]);
        let name = name.ok_or_else(|| self.missing("username"))?;
        let domain = self.domain("user_domain_id", "user_domain_name");
        let domain = domain.ok_or_else(|| self.missing("user_domain_id"))?;
        Ok(UserRef::Name { name, domain })
    }

    /// Returns the domain from its own fields, else from the fields that apply to both user and project.
    fn domain(&self, id: &str, name: &str) -> Option<DomainRef> {
        for (id, name) in [
            (id, name),
            ("domain_id", "domain_name"),
            ("default_domain_id", "default_domain_name"),
        ] {
            if let Some(id) = self.auth_text(&[id]) {
                return Some(DomainRef::Id(id));
            }
            if let Some(name) = self.auth_text(&[name]) {
                return Some(DomainRef::Name(name));
            }
        }
        self.auth_text(&["default_domain"]).map(DomainRef::Id)
    }

    fn scope(&self, credentials: &Credentials) -> Result<Scope, ConfigError> {
        if matches!(
            credentials,
            Credentials::ApplicationCredentialId { .. }
                | Credentials::ApplicationCredentialName { .. }
        ) {
            // Keystone refuses any scope here, because the credential has its own.
            return Ok(Scope::Unscoped);
        }
        if let Some(id) = self.auth_text(&["project_id", "tenant_id"]) {
            return Ok(Scope::ProjectId(id));
        }
        if let Some(name) = self.auth_text(&["project_name", "tenant_name"]) {
            let domain = self.domain("project_domain_id", "project_domain_name");
            let domain = domain.ok_or_else(|| self.missing("project_domain_id"))?;
            return Ok(Scope::ProjectName { name, domain });
        }
        if let Some(scope) = self.auth(&["system_scope"]) {
            if scope.text() != "all" {
                let problem = "the only system scope is \"all\"".to_owned();
                return Err(self.bad("auth.system_scope", scope, problem, &["all"]));
            }
            return Ok(Scope::System);
        }
        let domain = self.auth_text(&["domain_id"]).map(DomainRef::Id);
        let domain = domain.or_else(|| self.auth_text(&["domain_name"]).map(DomainRef::Name));
        Ok(domain.map_or(Scope::Unscoped, Scope::Domain))
    }

    /// Returns the interfaces in the order of preference.
    fn interfaces(&self) -> Result<Vec<Interface>, ConfigError> {
        let Some(scalar) = self.beside(&["interface", "endpoint_type"]) else {
            return Ok(Vec::new());
        };
        let one = |name: &str| {
            // The old names have the suffix, as in publicURL.
            let name = name.trim().trim_end_matches("URL");
            name.parse().map_err(|_| {
                let problem = format!("{name:?} is not one of public, internal, admin");
                let known = ["public", "internal", "admin"];
                self.bad("interface", scalar, problem, &known)
            })
        };
        scalar.text().split(',').map(one).collect()
    }

    fn endpoint_overrides(&self) -> Result<BTreeMap<String, Url>, ConfigError> {
        let overrides = self.raw.fields.iter().filter_map(|(key, scalar)| {
            let service = key.strip_suffix("_endpoint_override")?;
            let url = self.url(key, scalar);
            Some(url.map(|url| (service.to_owned(), url)))
        });
        overrides.collect()
    }

    fn flag(&self, field: &str) -> Result<Option<bool>, ConfigError> {
        let Some(scalar) = self.beside(&[field]) else {
            return Ok(None);
        };
        match scalar.text().to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Some(true)),
            "false" | "no" | "off" | "0" => Ok(Some(false)),
            other => {
                let problem = format!("{other:?} is neither true nor false");
                Err(self.bad(field, scalar, problem, &["true", "false"]))
            }
        }
    }

    fn tls(&self, home: Option<&Path>) -> Result<Tls, ConfigError> {
        let path = |field: &str| {
            let text = self.beside(&[field]).map(Scalar::text)?;
            let path = match (text.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(text),
            };
            Some(path).filter(|path| !path.as_os_str().is_empty())
        };
        let insecure = self.flag("insecure")?.unwrap_or(false);
        // A path in `verify` names the CA bundle, as in openstacksdk.
        let by = path("verify").filter(|by| by.as_os_str().as_encoded_bytes().contains(&b'/'));
        let verify = match by {
            Some(_) => true,
            None => self.flag("verify")?.unwrap_or(true),
        };
        Ok(Tls {
            // The laxer of `verify` and `insecure` wins, as in openstacksdk.
            verify: verify && !insecure,
            cacert: path("cacert").or(by),
            cert: path("cert"),
            key: path("key"),
        })
    }
}
