//! The port to clouds: what lists, probes and acts on resources.
pub mod openstack;
