//! The scenes about the files and the tags of images.
use super::Caller::Demo;
use super::images::{NAMED, refuses, scene};
use super::{OCTETS, Step, delete, get, patch, post, put};

fn upload(path: &'static str, text: &'static str) -> Step {
    put(path, text).header("content-type", OCTETS).status(204)
}

const HELLO: &str = r#""hello""#;

pub(super) fn files() -> Vec<Step> {
    scene(vec![
        post("/images", NAMED).save("i"),
        get("/images/$i/file")
            .status(204)
            .row("file of an image that has none"),
        refuses(
            get("/images/nosuch/file"),
            404,
            "No image found with ID nosuch",
        ),
        refuses(
            upload("/images/nosuch/file", HELLO),
            404,
            "No image found with ID nosuch",
        ),
        refuses(
            upload("/images/$i/file", HELLO),
            400,
            "Properties disk_format, container_format must be set prior to saving data.",
        ),
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/disk_format", "value": "raw"}]"#,
        ),
        refuses(
            upload("/images/$i/file", HELLO),
            400,
            "Property container_format must be set prior to saving data.",
        )
        .row("upload without formats"),
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/container_format", "value": "bare"}]"#,
        ),
        refuses(
            upload("/images/$i/file", HELLO).header("content-type", "application/json"),
            415,
            "*",
        ),
        upload("/images/$i/file", HELLO).row("upload"),
        get("/images/$i")
            .shows("/status", r#""active""#)
            .shows("/size", "5")
            .shows("/stores", r#""files""#),
        get("/images/$i/file").shows("", HELLO),
        refuses(
            upload("/images/$i/file", HELLO),
            409,
            "Image status transition from active to saving is not allowed",
        )
        .row("upload again"),
        refuses(
            patch(
                "/images/$i",
                r#"[{"op": "replace", "path": "/disk_format", "value": "qcow2"}]"#,
            ),
            403,
            "Attribute disk_format can be only replaced for a queued image.",
        ),
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/visibility", "value": "public"}]"#,
        ),
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
        post(
            "/images",
            r#"{"disk_format": "qcow2", "container_format": "bare"}"#,
        )
        .save("q"),
        refuses(
            post("/images/$q/actions/deactivate", ""),
            403,
            "Not allowed to deactivate image in status 'queued'",
        ),
        post(
            "/images",
            r#"{"disk_format": "ami", "container_format": "ami"}"#,
        )
        .save("m"),
        upload("/images/$m/file", HELLO),
        get("/images/$m").shows("/size", "5"),
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
