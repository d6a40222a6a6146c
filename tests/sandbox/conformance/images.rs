//! The scenes about images and their members.
//!
//! The database of a real Glance keeps the rows of deleted images, so no step uses a fixed id. A real Glance may have
//! images of other users, so the scenes list only images with names of their own.
use super::Caller::{BadToken, Demo};
use super::{Service, Step, delete, get, patch, post, put};

pub(super) fn scene(steps: Vec<Step>) -> Vec<Step> {
    steps
        .into_iter()
        .map(|step| step.at(Service::Image))
        .collect()
}

pub(super) fn refuses(step: Step, status: u16, message: &'static str) -> Step {
    step.refuses(status, "", message)
}

pub(super) const NAMED: &str = r#"{"name": "conformance"}"#;
const SHARE: &str = r#"{"member": "$demo"}"#;
const KEYS: &str = "checksum container_format created_at disk_format file id min_disk min_ram name \
    os_hash_algo os_hash_value os_hidden owner protected schema self size status tags updated_at \
    virtual_size visibility";
const NO_IMAGE: &str = "No image found with ID $i";
const NO_SUCH_IMAGE: &str = "Image $i not found.";

pub(super) fn images() -> Vec<Step> {
    scene(vec![
        post("/images", NAMED)
            .save("i")
            .keys("", KEYS)
            .shows("/visibility", r#""shared""#)
            .shows("/status", r#""queued""#)
            .shows("/size", "null")
            .shows("/self", r#""/v2/images/$i""#)
            .shows("/file", r#""/v2/images/$i/file""#)
            .shows("/schema", r#""/v2/schemas/image""#)
            .shows("/tags", "[]")
            .shows("/os_hidden", "false"),
        get("/images/$i").keys("", KEYS).shows("/name", r#""conformance""#),
        refuses(get("/images/$i").by(Demo), 404, NO_IMAGE),
        refuses(get("/images/$gone"), 404, "No image found with ID $gone"),
        refuses(get("/images/nosuch"), 404, "No image found with ID nosuch"),
        post("/images", r#"{"id": "$fresh", "name": "conformance"}"#).shows("/id", r#""$fresh""#),
        refuses(
            post("/images", r#"{"id": "$fresh"}"#),
            409,
            "Image ID $fresh already exists!",
        ),
        delete("/images/$fresh"),
        refuses(
            post("/images", r#"{"id": "$fresh"}"#),
            409,
            "Image ID $fresh already exists!",
        )
        .row("image with the id of a deleted one"),
        post(
            "/images",
            r#"{"name": null, "visibility": "private", "protected": true, "tags": ["a", "a"], "disk_format": "raw",
                "container_format": "bare", "min_disk": 3, "min_ram": 64, "os_hidden": true, "color": "red", "owner": "$demo"}"#,
        )
        .save("full")
        .shows("/name", "null")
        .shows("/owner", r#""$demo""#)
        .shows("/tags", r#"["a"]"#)
        .shows("/color", r#""red""#)
        .shows("/min_disk", "3")
        .shows("/os_hidden", "true"),
        get("/images/$full").by(Demo).shows("/protected", "true"),
    ])
}

pub(super) fn members() -> Vec<Step> {
    scene(vec![
        post("/images", NAMED).save("i"),
        get("/images/$i/members").shows("", r#"{"members": [], "schema": "/v2/schemas/members"}"#),
        refuses(get("/images/$i/members").by(Demo), 404, NO_SUCH_IMAGE),
        refuses(
            post("/images/$i/members", SHARE).by(Demo),
            404,
            NO_SUCH_IMAGE,
        ),
        post("/images/$i/members", SHARE)
            .status(200)
            .keys("", "created_at image_id member_id schema status updated_at")
            .shows("/member_id", r#""$demo""#)
            .shows("/image_id", r#""$i""#)
            .shows("/status", r#""pending""#)
            .shows("/schema", r#""/v2/schemas/member""#)
            .row("member of a shared image"),
        refuses(
            post("/images/$i/members", SHARE),
            409,
            "Member $demo is duplicated for image $i",
        )
        .row("member added again"),
        post("/images/$i/members", r#"{"member": "other"}"#).status(200),
        // A member sees the image, and of its members only itself.
        get("/images/$i").by(Demo).shows("/id", r#""$i""#),
        get("/images/$i/members")
            .by(Demo)
            .shows("/members/0/member_id", r#""$demo""#)
            .shows("/members/1", "null"),
        get("/images/$i/members/$demo")
            .by(Demo)
            .shows("/status", r#""pending""#),
        refuses(
            get("/images/$i/members/other").by(Demo),
            404,
            "other not found in the member list of the image $i.",
        ),
        refuses(
            get("/images/$i/members/nosuch"),
            404,
            "nosuch not found in the member list of the image $i.",
        )
        .row("unknown member"),
        refuses(
            post("/images/$i/members", r#"{"member": "third"}"#).by(Demo),
            403,
            "You are not authorized to complete add_member action.",
        ),
        refuses(
            delete("/images/$i/members/$demo").by(Demo),
            403,
            "You are not authorized to complete delete_member action.",
        )
        .row("member removes itself"),
        // The member or an admin sets the status.
        put("/images/$i/members/$demo", r#"{"status": "accepted"}"#)
            .by(Demo)
            .shows("/status", r#""accepted""#),
        put("/images/$i/members/$demo", r#"{"status": "rejected"}"#)
            .shows("/status", r#""rejected""#),
        refuses(
            put("/images/$i/members/$demo", r#"{"status": "nosuch"}"#).by(Demo),
            400,
            "Incorrect request: Status must be \"pending\", \"accepted\" or \"rejected\".",
        ),
        refuses(
            put("/images/$i/members/$demo", "{}"),
            400,
            "Status not specified",
        ),
        refuses(put("/images/$i/members/$demo", "[]"), 400, "*"),
        refuses(
            put("/images/$i/members/$demo", ""),
            400,
            "Body expected in request.",
        ),
        refuses(
            put("/images/$i/members/other", r#"{"status": "accepted"}"#).by(Demo),
            404,
            "other not found in the member list of the image $i.",
        ),
        // The owner adds a member, but cannot accept the image for the member.
        post("/images", NAMED).by(Demo).save("d"),
        post("/images/$d/members", r#"{"member": "other"}"#)
            .by(Demo)
            .status(200),
        refuses(
            put("/images/$d/members/other", r#"{"status": "accepted"}"#).by(Demo),
            403,
            "You are not authorized to complete modify_member action.",
        )
        .row("owner accepts for a member"),
        delete("/images/$d/members/other").by(Demo),
        refuses(
            delete("/images/$d/members/other").by(Demo),
            404,
            "other not found in the member list of the image $d.",
        ),
        refuses(post("/images/$i/members", r#"{"member": ""}"#), 400, "*"),
        refuses(
            post("/images/$i/members", "{}"),
            400,
            "Member to be added not specified",
        ),
        refuses(post("/images/$i/members", "[]"), 400, "*"),
        refuses(
            post("/images/$i/members", ""),
            400,
            "Body expected in request.",
        ),
        refuses(
            post("/images/$gone/members", SHARE),
            404,
            "Image $gone not found.",
        ),
        refuses(get("/images/$gone/members"), 404, "Image $gone not found."),
        refuses(
            delete("/images/$gone/members/x"),
            404,
            "Image $gone not found.",
        ),
        refuses(
            put("/images/$gone/members/x", r#"{"status": "accepted"}"#),
            404,
            "Image $gone not found.",
        ),
    ])
}

/// A member that is added again has its old row, and its old position in the list.
pub(super) fn member_added_again() -> Vec<Step> {
    scene(vec![
        post("/images", NAMED).save("i"),
        post("/images/$i/members", SHARE).status(200),
        post("/images/$i/members", r#"{"member": "other"}"#).status(200),
        put("/images/$i/members/$demo", r#"{"status": "accepted"}"#),
        delete("/images/$i/members/$demo"),
        refuses(
            delete("/images/$i/members/$demo"),
            404,
            "$demo not found in the member list of the image $i.",
        ),
        refuses(
            get("/images/$i/members/$demo"),
            404,
            "$demo not found in the member list of the image $i.",
        ),
        get("/images/$i/members")
            .shows("/members/0/member_id", r#""other""#)
            .shows("/members/1", "null"),
        refuses(get("/images/$i").by(Demo), 404, NO_IMAGE),
        post("/images/$i/members", SHARE)
            .status(200)
            .shows("/status", r#""pending""#)
            .row("deleted member added again"),
        get("/images/$i/members")
            .shows("/members/0/member_id", r#""$demo""#)
            .shows("/members/1/member_id", r#""other""#),
    ])
}

const PRIVATE: &str = r#"{"visibility": "private"}"#;
const ONLY_SHARED: &str =
    "Not allowed to list members for image $i: Only shared images have members.";

pub(super) fn visibility() -> Vec<Step> {
    let mut steps = vec![
        post("/images", PRIVATE).save("i"),
        refuses(get("/images/$i").by(Demo), 404, NO_IMAGE),
        refuses(get("/images/$i/members").by(Demo), 404, NO_SUCH_IMAGE),
        refuses(
            post("/images/$i/members", SHARE).by(Demo),
            404,
            NO_SUCH_IMAGE,
        ),
    ];
    steps.extend(member_calls_refused());
    for body in [
        r#"{"visibility": "public"}"#,
        r#"{"visibility": "community"}"#,
    ] {
        steps.push(post("/images", body).save("i"));
        steps.push(get("/images/$i").by(Demo).shows("/id", r#""$i""#));
        steps.push(refuses(
            get("/images/$i/members").by(Demo),
            403,
            ONLY_SHARED,
        ));
        steps.extend(member_calls_refused());
    }
    steps.extend([
        // A private image hides its members; they are listed again when the image is shared again.
        post("/images", NAMED).save("i"),
        post("/images/$i/members", SHARE).status(200),
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/visibility", "value": "private"}]"#,
        ),
        refuses(get("/images/$i").by(Demo), 404, NO_IMAGE),
        refuses(get("/images/$i/members"), 403, ONLY_SHARED),
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/visibility", "value": "shared"}]"#,
        ),
        get("/images/$i/members")
            .shows("/members/0/member_id", r#""$demo""#)
            .row("members of an image that was private for a while"),
        refuses(
            post("/images", r#"{"visibility": "public"}"#).by(Demo),
            403,
            "You are not authorized to complete publicize_image action.",
        ),
        post("/images", r#"{"visibility": "community"}"#).by(Demo),
        refuses(
            post("/images", r#"{"owner": "$i.owner"}"#).by(Demo),
            403,
            "Access was denied to this resource.\nYou are not permitted to create images owned by '$i.owner'",
        ),
    ]);
    scene(steps)
}

/// The refusals of all calls for members of an image `i` that is not shared, as an admin.
fn member_calls_refused() -> Vec<Step> {
    vec![
        refuses(get("/images/$i/members"), 403, ONLY_SHARED)
            .row("list of members of an image that is not shared"),
        refuses(
            post("/images/$i/members", SHARE),
            403,
            "Not allowed to create members for image $i.",
        )
        .row("member of an image that is not shared"),
        refuses(
            get("/images/$i/members/$demo"),
            404,
            "Only shared images have members.",
        ),
        refuses(
            put("/images/$i/members/$demo", r#"{"status": "accepted"}"#),
            403,
            "Not allowed to update members for image $i.",
        ),
        refuses(
            delete("/images/$i/members/$demo"),
            403,
            "Not allowed to delete members for image $i.",
        ),
    ]
}

const FAILED: &str = "Failed to find image $i to delete";
const NO_DELETE: &str = "You are not authorized to complete delete_image action.";

pub(super) fn deletion() -> Vec<Step> {
    scene(vec![
        post("/images", NAMED).save("i"),
        refuses(delete("/images/$i").by(Demo), 404, FAILED)
            .row("invisible image of another project"),
        post("/images/$i/members", SHARE).status(200),
        refuses(delete("/images/$i").by(Demo), 403, NO_DELETE)
            .row("visible image of another project"),
        refuses(delete("/images/$i").by(BadToken), 401, "*"),
        delete("/images/$i").row("image with members"),
        refuses(delete("/images/$i"), 404, FAILED).row("image deleted again"),
        refuses(get("/images/$i"), 404, NO_IMAGE),
        refuses(get("/images/$i/members"), 404, NO_SUCH_IMAGE),
        post("/images", r#"{"protected": true, "visibility": "public"}"#).save("i"),
        refuses(
            delete("/images/$i"),
            403,
            "Image $i is protected and cannot be deleted.",
        )
        .row("protected image"),
        // The check of the owner comes before that of the protection.
        refuses(delete("/images/$i").by(Demo), 403, NO_DELETE),
        patch(
            "/images/$i",
            r#"[{"op": "replace", "path": "/protected", "value": false}]"#,
        ),
        delete("/images/$i"),
        post("/images", PRIVATE).save("i"),
        refuses(delete("/images/$i").by(Demo), 404, FAILED),
        refuses(
            delete("/images/nosuch"),
            404,
            "Failed to find image nosuch to delete",
        ),
    ])
}
