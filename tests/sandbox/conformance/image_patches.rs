//! Glance's scenes about patches.
use super::Who::Demo;
use super::images::{refuses, scene};
use super::{IMAGE_PATCH, Step, get, patch, post};

pub(super) fn patches() -> Vec<Step> {
    let mut steps = vec![
        post("/images", r#"{"name": "conformance", "os_version": "9"}"#).save("i"),
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/name", "value": "new"}, {"op": "add", "path": "/color", "value": "red"},
                {"op": "remove", "path": "/os_version"}, {"op": "replace", "path": "/tags", "value": ["x"]},
                {"op": "add", "path": "/a~1b", "value": "slash"}]"#,
        )
        .shows("/name", r#""new""#)
        .shows("/color", r#""red""#)
        .shows("/os_version", "null")
        .shows("/tags", r#"["x"]"#)
        .shows("/a~1b", r#""slash""#),
        patch("/images/$i", "[]").shows("/name", r#""new""#),
        patch("/images/$i", r#"[{"op": "add", "path": "/name", "value": null}]"#).shows("/name", "null"),
        patch("/images/$i", r#"[{"op": "replace", "path": "/disk_format", "value": "raw"}]"#)
            .shows("/disk_format", r#""raw""#),
        patch("/images/$i", r#"[{"op": "replace", "path": "/os_hidden", "value": true}]"#)
            .shows("/os_hidden", "true"),
        // All of it, or nothing.
        refuses(
            patch(
                "/images/$i",
                r#"[{"op": "add", "path": "/visibility", "value": "private"}, {"op": "replace", "path": "/nosuch", "value": "x"}]"#,
            ),
            409,
            "There was a conflict when trying to complete your request.\nProperty nosuch does not exist.",
        ),
        get("/images/$i").shows("/visibility", r#""shared""#),
        patch("/images/$i", r#"[{"add": "/older", "value": "x"}]"#)
            .header("content-type", "application/openstack-images-v2.0-json-patch")
            .shows("/older", r#""x""#),
        refuses(
            patch("/images/$i", r#"[{"add": "/older", "value": "x"}]"#)
                .header("content-type", "application/openstack-images-v2.0-json-patch"),
            409,
            "There was a conflict when trying to complete your request.\nProperty older already present.",
        ),
        refuses(
            patch("/images/$i", "[]").header("content-type", "application/json"),
            415,
            "The request media type application/json is not supported by this server.\n\nImage PATCH expects Content-Type one of: \
             application/openstack-images-v2.0-json-patch, application/openstack-images-v2.1-json-patch",
        ),
        refuses(patch("/images/$i", "").header("content-type", IMAGE_PATCH), 400, "Body expected in request."),
        refuses(
            patch("/images/nosuch", r#"[{"op": "replace", "path": "/name", "value": "x"}]"#),
            404,
            "No image found with ID nosuch",
        ),
        refuses(
            patch("/images/$i", r#"[{"op": "replace", "path": "/name", "value": "x"}]"#).by(Demo),
            404,
            "No image found with ID $i",
        ),
        patch("/images/$i", r#"[{"op": "replace", "path": "/visibility", "value": "public"}]"#),
        refuses(
            patch("/images/$i", r#"[{"op": "replace", "path": "/name", "value": "x"}]"#).by(Demo),
            403,
            "You are not authorized to complete modify_image action.",
        ),
    ];
    steps.extend(refused_patches());
    steps.extend([
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/owner", "value": "$demo"}, {"op": "replace", "path": "/visibility", "value": "shared"}]"#,
        )
        .shows("/owner", r#""$demo""#),
        refuses(
            patch("/images/$i", r#"[{"op": "replace", "path": "/visibility", "value": "public"}]"#).by(Demo),
            403,
            "You are not authorized to complete publicize_image action.",
        ),
        refuses(
            patch("/images/$i", r#"[{"op": "replace", "path": "/owner", "value": "other"}]"#).by(Demo),
            403,
            "Access was denied to this resource.\nOwner can't be updated by non admin.",
        ),
        refuses(
            patch("/images/$i", r#"[{"op": "add", "path": "/owner", "value": "other"}]"#).by(Demo),
            403,
            "Forbidding request, image $i not visible",
        ),
        get("/images/$i").by(Demo).shows("/owner", r#""$demo""#),
    ]);
    scene(steps)
}

/// Of `$i`, by an admin.
fn refused_patches() -> Vec<Step> {
    let refused = [
        (
            409,
            r#"[{"op": "remove", "path": "/nosuch"}]"#,
            "There was a conflict when trying to complete your request.\nProperty nosuch does not exist.",
        ),
        (
            403,
            r#"[{"op": "remove", "path": "/name"}]"#,
            "Access was denied to this resource.\nProperty name may not be removed.",
        ),
        (
            403,
            r#"[{"op": "replace", "path": "/id", "value": "x"}]"#,
            "Attribute 'id' is read-only.",
        ),
        (
            403,
            r#"[{"op": "replace", "path": "/status", "value": "active"}]"#,
            "Attribute 'status' is read-only.",
        ),
        (
            403,
            r#"[{"op": "replace", "path": "/deleted", "value": true}]"#,
            "Attribute 'deleted' is reserved.",
        ),
        (
            403,
            r#"[{"op": "add", "path": "/os_glance_x", "value": "5"}]"#,
            "Attribute 'os_glance_x' is reserved.",
        ),
        (
            403,
            r#"[{"op": "replace", "path": "/locations", "value": []}]"#,
            "Access was denied to this resource.\nCannot set locations to empty list.",
        ),
        (
            403,
            r#"[{"op": "remove", "path": "/locations/0"}]"#,
            "It's not allowed to remove locations if locations are invisible.",
        ),
        (
            400,
            r#"[{"op": "add", "path": "/a/b", "value": "x"}]"#,
            "Invalid JSON pointer for this resource: '/a/b'",
        ),
        (
            400,
            r#"[{"op": "add", "path": "/tags/-", "value": "x"}]"#,
            "Invalid JSON pointer for this resource: '/tags/-'",
        ),
        (
            400,
            r#"[{"op": "replace", "path": "name", "value": "x"}]"#,
            "Pointer `name` does not start with \"/\".",
        ),
        (
            400,
            r#"[{"op": "add", "path": "/a//b", "value": "x"}]"#,
            "Pointer `/a//b` contains adjacent \"/\".",
        ),
        (
            400,
            r#"[{"op": "add", "path": "/a/", "value": "x"}]"#,
            "Pointer `/a/` end with \"/\".",
        ),
        (
            400,
            r#"[{"op": "add", "path": "/a~2b", "value": "x"}]"#,
            "Pointer `/a~2b` contains \"~\" not part of a recognized escape sequence.",
        ),
        (
            400,
            r#"[{"op": "replace", "path": "/name"}]"#,
            "Operation \"replace\" requires a member named \"value\".",
        ),
        (
            400,
            r#"[{"op": "move", "path": "/name"}]"#,
            "Invalid operation: `move`. It must be one of the following: add, remove, replace.",
        ),
        (
            400,
            r#"[{"path": "/name"}]"#,
            "Unable to find `op` in JSON Schema change. It must be one of the following: add, remove, replace.",
        ),
        (
            400,
            r#"[{"op": "add", "value": "x"}]"#,
            "Unable to find 'path' in JSON Schema change",
        ),
        (
            400,
            "{}",
            "Request body must be a JSON array of operation objects.",
        ),
        (400, r#"["x"]"#, "Operations must be JSON objects."),
        (
            400,
            r#"[{"op": "replace", "path": "/min_disk", "value": -1}]"#,
            "Invalid value '-1' for parameter 'min_disk': Cannot be a negative value",
        ),
        (
            400,
            r#"[{"op": "add", "path": "/k", "value": 5}]"#,
            "Provided object does not match schema 'image': 5 is not of type 'string'\n\nFailed validating 'type' in schema['additionalProperties']:\n    {'type': 'string'}\n\nOn instance['k']:\n    5",
        ),
    ];
    refused
        .into_iter()
        .map(|(status, body, message)| refuses(patch("/images/$i", body), status, message))
        .collect()
}
