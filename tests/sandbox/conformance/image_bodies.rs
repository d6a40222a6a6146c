//! Glance's scenes about bodies: what it takes, and in which words it refuses.
use super::images::{NAMED, refuses, scene};
use super::{OCTETS, Step, delete, get, post};

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
