//! The relations of a resource, as `gone explain` and the console show them.

use gone::domain::model::{KindName, ResourceKey};
use gone::domain::relations::{Relation, RelationKind, of_plan, of_row};
use serde_json::json;

use super::topology::{Topology, cascade};

/// Returns `kind/id` of the resources at the other end of the relations of one kind, sorted.
fn ends(relations: &[Relation], how: RelationKind) -> Vec<String> {
    let ends = relations.iter().filter(|it| it.how == how);
    let key = |relation: &Relation| relation.resource.as_ref().map(|it| it.key.clone());
    let name = |key: ResourceKey| format!("{}/{}", key.kind, key.id);
    let mut ends: Vec<String> = ends.filter_map(key).map(name).collect();
    ends.sort();
    ends
}

#[test]
fn the_relations_of_a_row_name_what_it_uses_and_its_project() {
    let cloud = Topology::web();
    let port = cloud.resource("port", "vm");
    let relations = of_row(&cloud.kinds, &port);
    let uses = ends(&relations, RelationKind::Uses);
    for used in ["network/web", "subnet/s1"] {
        assert!(uses.contains(&used.to_owned()), "{used}: {uses:?}");
    }
    let mut once = uses.clone();
    once.dedup();
    assert_eq!(once, uses, "a used resource is named twice");
    assert_eq!(ends(&relations, RelationKind::OwnedBy), ["project/p1"]);
}

#[test]
fn a_row_that_refers_to_its_project_is_owned_by_it_and_does_not_use_it() {
    let cloud = Topology::web();
    let mut server = cloud.resource("port", "vm");
    server.key.kind = KindName::new("server");
    server.attributes = json!({"tenant_id": "p1"});
    let relations = of_row(&cloud.kinds, &server);
    assert_eq!(ends(&relations, RelationKind::OwnedBy), ["project/p1"]);
    assert_eq!(ends(&relations, RelationKind::Uses), [""; 0]);
}

#[test]
fn the_relations_of_a_plan_name_what_uses_its_target() {
    let mut cloud = Topology::web();
    let plan = cloud.plan("network", "web", cascade());
    let target = cloud.resource("network", "web").key;
    let relations = of_plan(&cloud.kinds, &plan, &target);
    let users = ends(&relations, RelationKind::UsedBy);
    assert!(users.contains(&"port/vm".to_owned()), "{users:?}");
    // A floating IP uses a port, not the network.
    assert!(
        !users.iter().any(|it| it.starts_with("floating_ip/")),
        "{users:?}"
    );
    let mut cloud = Topology::web();
    let plan = cloud.plan("port", "vm", cascade());
    let port = cloud.resource("port", "vm").key;
    let relations = of_plan(&cloud.kinds, &plan, &port);
    let users = ends(&relations, RelationKind::UsedBy);
    assert!(users.contains(&"floating_ip/fip".to_owned()), "{users:?}");
}

#[test]
fn the_relations_of_a_protected_resource_name_its_protection() {
    let mut cloud = Topology::web();
    let protected = |_: &gone::domain::model::Resource| Some("tag keep".to_owned());
    let plan = cloud.plan_guarded("network", "web", cascade(), &protected);
    let target = cloud.resource("network", "web").key;
    let relations = of_plan(&cloud.kinds, &plan, &target);
    let protection = relations
        .iter()
        .find(|it| it.how == RelationKind::ProtectedBy);
    assert!(
        protection.is_some_and(|it| it.note.contains("tag keep")),
        "{relations:?}"
    );
}
