//! Logs: to standard error, as text or JSON; never a secret, never a raw name from a cloud.
