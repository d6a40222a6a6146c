//! Glance's scenes about bodies: what it takes, and in which words it refuses.
use super::Who::Demo;
use super::images::{NAMED, refuses, scene};
use super::{IMAGE_PATCH, OCTETS, Step, delete, get, patch, post, put};

pub(super) fn bodies() -> Vec<Step> {
    let mut steps = vec![
        refuses(post("/images", ""), 400, "Body expected in request."),
        refuses(
            post("/images", "5"),
            400,
            "Unexpected body type. Expected list/dict.",
        ),
        refuses(
            post("/images", r#""no JSON""#).header("content-type", OCTETS),
            400,
            "Malformed JSON in request body.",
        ),
        refuses(
            post("/images", "[]"),
            500,
            "The server has either erred or is incapable of performing the requested operation.",
        ),
        refuses(
            post("/images", r#"{"min_disk": -1}"#),
            400,
            "Invalid value '-1' for parameter 'min_disk': Cannot be a negative value",
        ),
        refuses(
            post("/images", r#"{"min_ram": 1099511627776}"#),
            400,
            "'min_ram' value out of range, must not exceed 2147483647.",
        ),
        refuses(
            post("/images", r#"{"locations": []}"#),
            403,
            "Attribute 'locations' is reserved.",
        ),
        refuses(
            post("/images", r#"{"deleted": "x"}"#),
            403,
            "Access was denied to this resource.\nAttribute 'deleted' is reserved.",
        ),
        refuses(
            post("/images", r#"{"os_glance_x": "x"}"#),
            403,
            "Access was denied to this resource.\nAttribute 'os_glance_x' is reserved.",
        ),
        post("/images", NAMED).save("i"),
        refuses(
            delete("/images/$i").body("{}"),
            400,
            "A body is not expected with this request.",
        ),
        refuses(
            get("/images/$i").body("{}"),
            400,
            "A body is not expected with this request.",
        ),
    ];
    for (body, message) in [
        (
            r#"{"status": "active"}"#,
            "Attribute 'status' is read-only.",
        ),
        (r#"{"size": 4}"#, "Attribute 'size' is read-only."),
        (r#"{"self": "x"}"#, "Attribute 'self' is read-only."),
        (
            r#"{"created_at": "x"}"#,
            "Attribute 'created_at' is read-only.",
        ),
        (r#"{"checksum": "x"}"#, "Attribute 'checksum' is read-only."),
    ] {
        steps.push(refuses(post("/images", body), 403, message));
    }
    scene(steps)
}

macro_rules! misfit {
    ($problem:literal, $rule:literal, $printed:literal, $place:literal, $value:literal) => {
        concat!(
            "Provided object does not match schema 'image': ",
            $problem,
            "\n\nFailed validating ",
            $rule,
            ":\n    ",
            $printed,
            "\n\nOn instance",
            $place,
            ":\n    ",
            $value
        )
    };
}

/// What does not fit the schema is told at length.
pub(super) fn schema() -> Vec<Step> {
    let misfits = [
        (
            r#"{"name": 5}"#,
            misfit!(
                "5 is not of type 'null', 'string'",
                "'type' in schema['properties']['name']",
                "{'type': ['null', 'string'],\n     'description': 'Descriptive name for the image',\n     'maxLength': 255}",
                "['name']",
                "5"
            ),
        ),
        (
            r#"{"visibility": "x"}"#,
            misfit!(
                "'x' is not one of ['community', 'public', 'private', 'shared']",
                "'enum' in schema['properties']['visibility']",
                "{'type': 'string',\n     'description': 'Scope of image accessibility',\n     'enum': ['community', 'public', 'private', 'shared']}",
                "['visibility']",
                "'x'"
            ),
        ),
        (
            r#"{"protected": "x"}"#,
            misfit!(
                "'x' is not of type 'boolean'",
                "'type' in schema['properties']['protected']",
                "{'type': 'boolean',\n     'description': 'If true, image will not be deletable.'}",
                "['protected']",
                "'x'"
            ),
        ),
        (
            r#"{"os_hidden": null}"#,
            misfit!(
                "None is not of type 'boolean'",
                "'type' in schema['properties']['os_hidden']",
                "{'type': 'boolean',\n     'description': 'If true, image will not appear in default image list '\n                    'response.'}",
                "['os_hidden']",
                "None"
            ),
        ),
        (
            r#"{"owner": 5}"#,
            misfit!(
                "5 is not of type 'null', 'string'",
                "'type' in schema['properties']['owner']",
                "{'type': ['null', 'string'],\n     'description': 'Owner of the image',\n     'maxLength': 255}",
                "['owner']",
                "5"
            ),
        ),
        (
            r#"{"disk_format": "x"}"#,
            misfit!(
                "'x' is not one of [None, 'ami', 'ari', 'aki', 'vhd', 'vhdx', 'vmdk', 'raw', 'qcow2', 'vdi', 'iso', 'ploop']",
                "'enum' in schema['properties']['disk_format']",
                "{'type': ['null', 'string'],\n     'description': 'Format of the disk',\n     'enum': [None,\n              'ami',\n              'ari',\n              'aki',\n              'vhd',\n              'vhdx',\n              'vmdk',\n              'raw',\n              'qcow2',\n              'vdi',\n              'iso',\n              'ploop']}",
                "['disk_format']",
                "'x'"
            ),
        ),
        (
            r#"{"container_format": "x"}"#,
            misfit!(
                "'x' is not one of [None, 'ami', 'ari', 'aki', 'bare', 'ovf', 'ova', 'docker', 'compressed']",
                "'enum' in schema['properties']['container_format']",
                "{'type': ['null', 'string'],\n     'description': 'Format of the container',\n     'enum': [None,\n              'ami',\n              'ari',\n              'aki',\n              'bare',\n              'ovf',\n              'ova',\n              'docker',\n              'compressed']}",
                "['container_format']",
                "'x'"
            ),
        ),
        (
            r#"{"tags": "x"}"#,
            misfit!(
                "'x' is not of type 'array'",
                "'type' in schema['properties']['tags']",
                "{'type': 'array',\n     'description': 'List of strings related to the image',\n     'items': {'type': 'string', 'maxLength': 255}}",
                "['tags']",
                "'x'"
            ),
        ),
        (
            r#"{"tags": ["a", 5]}"#,
            misfit!(
                "5 is not of type 'string'",
                "'type' in schema['properties']['tags']['items']",
                "{'type': 'string', 'maxLength': 255}",
                "['tags'][1]",
                "5"
            ),
        ),
        (
            r#"{"min_disk": "3"}"#,
            misfit!(
                "'3' is not of type 'integer'",
                "'type' in schema['properties']['min_disk']",
                "{'type': 'integer',\n     'description': 'Amount of disk space (in GB) required to boot image.'}",
                "['min_disk']",
                "'3'"
            ),
        ),
        (
            r#"{"min_ram": null}"#,
            misfit!(
                "None is not of type 'integer'",
                "'type' in schema['properties']['min_ram']",
                "{'type': 'integer',\n     'description': 'Amount of ram (in MB) required to boot image.'}",
                "['min_ram']",
                "None"
            ),
        ),
        (
            r#"{"id": "abc"}"#,
            misfit!(
                "'abc' does not match '^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$'",
                "'pattern' in schema['properties']['id']",
                "{'type': 'string',\n     'description': 'An identifier for the image',\n     'pattern': '^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$'}",
                "['id']",
                "'abc'"
            ),
        ),
        (
            r#"{"k": {"b": [1, null, true, "it's"]}}"#,
            misfit!(
                "{'b': [1, None, True, \"it's\"]} is not of type 'string'",
                "'type' in schema['additionalProperties']",
                "{'type': 'string'}",
                "['k']",
                "{'b': [1, None, True, \"it's\"]}"
            ),
        ),
    ];
    let refused = misfits.map(|(body, message)| refuses(post("/images", body), 400, message));
    scene(refused.into())
}

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
            misfit!(
                "5 is not of type 'string'",
                "'type' in schema['additionalProperties']",
                "{'type': 'string'}",
                "['k']",
                "5"
            ),
        ),
    ];
    refused
        .into_iter()
        .map(|(status, body, message)| refuses(patch("/images/$i", body), status, message))
        .collect()
}

fn upload(path: &'static str, text: &'static str) -> Step {
    put(path, text).header("content-type", OCTETS).status(204)
}

const HELLO: &str = r#""hello""#;

pub(super) fn files() -> Vec<Step> {
    scene(vec![
        post("/images", NAMED).save("i"),
        get("/images/$i/file").status(204).row("file of an image that has none"),
        refuses(get("/images/nosuch/file"), 404, "No image found with ID nosuch"),
        refuses(upload("/images/nosuch/file", HELLO), 404, "No image found with ID nosuch"),
        refuses(
            upload("/images/$i/file", HELLO),
            400,
            "Properties disk_format, container_format must be set prior to saving data.",
        ),
        patch("/images/$i", r#"[{"op": "replace", "path": "/disk_format", "value": "raw"}]"#),
        refuses(
            upload("/images/$i/file", HELLO),
            400,
            "Property container_format must be set prior to saving data.",
        )
        .row("upload without formats"),
        patch("/images/$i", r#"[{"op": "replace", "path": "/container_format", "value": "bare"}]"#),
        refuses(
            upload("/images/$i/file", HELLO).header("content-type", "application/json"),
            415,
            "The request media type application/json is not supported by this server.\n\nInvalid content type application/json",
        ),
        upload("/images/$i/file", HELLO).row("upload"),
        get("/images/$i")
            .shows("/status", r#""active""#)
            .shows("/size", "5")
            .shows("/virtual_size", "5")
            .shows("/checksum", r#""5d41402abc4b2a76b9719d911017c592""#)
            .shows("/os_hash_algo", r#""sha512""#)
            .shows("/os_hash_value", r#""9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043""#)
            .shows("/stores", r#""files""#),
        get("/images/$i/file").shows("", HELLO),
        refuses(
            upload("/images/$i/file", HELLO),
            409,
            "Image status transition from active to saving is not allowed",
        )
        .row("upload again"),
        refuses(
            patch("/images/$i", r#"[{"op": "replace", "path": "/disk_format", "value": "qcow2"}]"#),
            403,
            "Attribute disk_format can be only replaced for a queued image.",
        ),
        patch("/images/$i", r#"[{"op": "replace", "path": "/visibility", "value": "public"}]"#),
        refuses(
            upload("/images/$i/file", HELLO).by(Demo),
            403,
            "You are not authorized to complete upload_image action.",
        ),
        get("/images/$i/file").by(Demo).shows("", HELLO),
        refuses(
            post("/images/$i/actions/deactivate", "").by(Demo),
            403,
            "You are not authorized to complete deactivate action.",
        ),
        post("/images/$i/actions/deactivate", "").status(204),
        post("/images/$i/actions/deactivate", "").status(204),
        get("/images/$i").shows("/status", r#""deactivated""#),
        refuses(
            get("/images/$i/file").by(Demo),
            403,
            "The requested image has been deactivated. Image data download is forbidden.",
        )
        .row("file of a deactivated image"),
        get("/images/$i/file").shows("", HELLO),
        post("/images/$i/actions/reactivate", "").status(204),
        post("/images/$i/actions/reactivate", "").status(204),
        get("/images/$i").shows("/status", r#""active""#),
        post("/images", r#"{"disk_format": "qcow2", "container_format": "bare"}"#).save("q"),
        refuses(
            upload("/images/$q/file", HELLO),
            415,
            "The request media type application/octet-stream is not supported by this server.\n\nImage disk_format qcow2 does not match stream data raw",
        )
        .row("upload of another format"),
        get("/images/$q")
            .shows("/status", r#""queued""#)
            .shows("/size", "null")
            .shows("/checksum", r#""5d41402abc4b2a76b9719d911017c592""#)
            .shows("/stores", r#""files""#),
        get("/images/$q/file").shows("", HELLO),
        refuses(
            upload("/images/$q/file", HELLO),
            500,
            "The server has either erred or is incapable of performing the requested operation.",
        ),
        refuses(
            post("/images/$q/actions/deactivate", ""),
            403,
            "Not allowed to deactivate image in status 'queued'",
        ),
        refuses(
            post("/images/nosuch/actions/reactivate", ""),
            404,
            "No image found with ID nosuch",
        ),
        delete("/images/$i"),
    ])
}

pub(super) fn tags() -> Vec<Step> {
    scene(vec![
        post("/images", NAMED).save("i"),
        put("/images/$i/tags/a", "").status(204),
        put("/images/$i/tags/a", "").status(204),
        get("/images/$i").shows("/tags", r#"["a"]"#),
        refuses(
            put("/images/$i/tags/a", "{}"),
            400,
            "A body is not expected with this request.",
        ),
        delete("/images/$i/tags/a"),
        refuses(
            delete("/images/$i/tags/a"),
            404,
            "The resource could not be found.",
        ),
        refuses(
            put("/images/$i/tags/a", "").by(Demo),
            404,
            "Image $i not found.",
        ),
        refuses(
            put("/images/nosuch/tags/a", ""),
            404,
            "Image nosuch not found.",
        ),
        refuses(
            delete("/images/nosuch/tags/a"),
            404,
            "Image nosuch not found.",
        ),
        post("/images/$i/members", r#"{"member": "$demo"}"#).status(200),
        refuses(
            put("/images/$i/tags/a", "").by(Demo),
            403,
            "You are not authorized to complete modify_image action.",
        ),
        refuses(
            delete("/images/$i/tags/a").by(Demo),
            403,
            "You are not authorized to complete modify_image action.",
        ),
    ])
}
