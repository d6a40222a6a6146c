//! The scenes about lists of images, and about the formats of Glance's refusals.
//!
//! `$fresh` is a text that no other image has.
use super::Caller::{BadToken, Demo};
use super::images::{NAMED, refuses, scene};
use super::{Step, delete, get, post, put, step};

/// The images a to f: private, shared, shared and accepted, public, community, hidden.
fn six_images() -> Vec<Step> {
    vec![
        post("/images", r#"{"name": "a", "k": "$fresh", "visibility": "private", "tags": ["t1", "t2"], "min_disk": 7}"#).save("a"),
        post("/images", r#"{"name": "b", "k": "$fresh", "tags": ["t1"], "size_of": "Large"}"#).save("b"),
        post("/images", r#"{"name": "c", "k": "$fresh", "disk_format": "raw"}"#).save("c"),
        post("/images", r#"{"name": "d", "k": "$fresh", "visibility": "public", "protected": true}"#).save("d"),
        post("/images", r#"{"name": "e", "k": "$fresh", "visibility": "community"}"#).save("e"),
        post("/images", r#"{"name": "f", "k": "$fresh", "os_hidden": true}"#).save("f"),
        post("/images/$b/members", r#"{"member": "$demo"}"#).status(200),
        post("/images/$c/members", r#"{"member": "$demo"}"#).status(200),
        put("/images/$c/members/$demo", r#"{"status": "accepted"}"#),
    ]
}

/// Expects a list of exactly these images, in this order.
fn finds(step: Step, names: &'static [&'static str]) -> Step {
    const POINTERS: [(&str, &str); 7] = [
        ("/images/0", "/images/0/name"),
        ("/images/1", "/images/1/name"),
        ("/images/2", "/images/2/name"),
        ("/images/3", "/images/3/name"),
        ("/images/4", "/images/4/name"),
        ("/images/5", "/images/5/name"),
        ("/images/6", "/images/6/name"),
    ];
    let mut step = step;
    for (pointer, name) in POINTERS.iter().zip(names) {
        step = step.shows(pointer.1, name);
    }
    step.shows(POINTERS[names.len()].0, "null")
}

macro_rules! list {
    ($query:literal) => {
        get(concat!("/images?k=$fresh&sort=name:asc", $query))
    };
}

const A: &str = r#""a""#;
const B: &str = r#""b""#;
const C: &str = r#""c""#;
const D: &str = r#""d""#;
const E: &str = r#""e""#;
const F: &str = r#""f""#;

/// Lists by visibility, owner and member status, as an admin and as a member.
pub(super) fn lists() -> Vec<Step> {
    let mut steps = six_images();
    steps.extend([
        finds(list!(""), &[A, B, C, D, E])
            .shows("/schema", r#""/v2/schemas/images""#)
            .shows("/first", r#""/v2/images?k=$fresh&sort=name%3Aasc""#)
            .shows("/next", "null"),
        finds(list!("").by(Demo), &[C, D]),
        finds(list!("&visibility=all"), &[A, B, C, D, E]),
        finds(list!("&visibility=all").by(Demo), &[C, D, E]).row("list as a member"),
        finds(list!("&visibility=community").by(Demo), &[E]),
        finds(list!("&visibility=shared"), &[B, C]),
        finds(list!("&visibility=shared").by(Demo), &[C]),
        finds(list!("&visibility=private"), &[A]),
        finds(list!("&visibility=private").by(Demo), &[]),
        finds(list!("&visibility=public").by(Demo), &[D]),
        finds(list!("&member_status=pending"), &[A, B, C, D, E]),
        finds(list!("&member_status=pending").by(Demo), &[B, D]),
        finds(list!("&member_status=all").by(Demo), &[B, C, D])
            .row("list of all shared images as a member"),
        finds(list!("&member_status=rejected").by(Demo), &[D]),
        finds(list!("&os_hidden=true"), &[F]).row("hidden image"),
        finds(get("/images?id=in:$f"), &[]),
        finds(get("/images?id=in:$f&os_hidden=true"), &[F]),
        finds(list!("&os_hidden=true").by(Demo), &[]),
        finds(list!("&owner=$a.owner"), &[A, B, C, D, E]),
        finds(list!("&owner=$demo"), &[]),
        delete("/images/$c"),
        finds(list!("").by(Demo), &[D]),
    ]);
    scene(steps)
}

pub(super) fn filters() -> Vec<Step> {
    let mut steps = six_images();
    steps.extend([
        finds(list!("&id=$a&id=$b"), &[B]).row("filter given twice"),
        finds(list!("&id=in:$a,$b"), &[A, B]).row("filter with several values"),
        finds(list!("&name=in:a,c"), &[A, C]),
        finds(list!("&name=a"), &[A]),
        finds(list!("&name=eq:a"), &[A]),
        // The database compares names without regard to case.
        finds(list!("&name=A"), &[A]).row("filter in another case"),
        finds(list!("&size_of=large"), &[B]),
        finds(list!("&status=queued"), &[A, B, C, D, E]),
        finds(list!("&status=in:active,queued"), &[A, B, C, D, E]),
        finds(list!("&status=active"), &[]),
        finds(list!("&protected=true"), &[D]),
        finds(list!("&disk_format=raw"), &[C]),
        finds(list!("&tag=t1"), &[A, B]),
        finds(list!("&tag=t1&tag=t2&limit=1"), &[A])
            .shows(
                "/next",
                r#""/v2/images?k=$fresh&sort=name%3Aasc&tag=t2&limit=1&marker=$a""#,
            )
            .row("tag given twice"),
        finds(list!("&nosuch=x"), &[]),
        finds(list!("&fields=id"), &[]).row("unknown filter"),
        finds(list!("&min_disk=7"), &[A]),
        finds(list!("&size=5"), &[]),
        finds(list!("&deleted=true"), &[A, B, C, D, E]),
    ]);
    let refused = [
        (
            "/images?name=neq:a",
            "Unable to filter by unknown operator 'neq'.",
        ),
        ("/images?visibility=x", "Invalid visibility value: x"),
        ("/images?member_status=x", "Invalid status: x"),
    ];
    steps.extend(refused.map(|(path, message)| refuses(get(path), 400, message)));
    scene(steps)
}

pub(super) fn sorting() -> Vec<Step> {
    let mut steps = six_images();
    steps.extend([
        finds(
            get("/images?k=$fresh&sort_key=name&sort_dir=asc"),
            &[A, B, C, D, E],
        ),
        finds(get("/images?k=$fresh&sort_key=name"), &[E, D, C, B, A]),
        finds(get("/images?k=$fresh&sort=name"), &[E, D, C, B, A]),
        finds(
            get("/images?k=$fresh&sort=disk_format:desc,name:asc"),
            &[C, A, B, D, E],
        ),
    ]);
    let refused = [
        ("/images?sort_key=nosuch", "*"),
        ("/images?sort_key=id&sort_dir=x", "*"),
        ("/images?sort=name:x", "*"),
    ];
    steps.extend(refused.map(|(path, message)| refuses(get(path), 400, message)));
    scene(steps)
}

/// Number of images on a page if the request has no limit.
const PAGE_ROWS: usize = 25;

pub(super) fn pages() -> Vec<Step> {
    let mut steps = six_images();
    steps.extend([
        finds(list!("&limit=2"), &[A, B])
            .shows("/first", r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2""#)
            .shows(
                "/next",
                r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2&marker=$b""#,
            )
            .row("page"),
        finds(list!("&limit=2&marker=$b"), &[C, D])
            .shows("/first", r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2""#)
            .shows(
                "/next",
                r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2&marker=$d""#,
            ),
        finds(list!("&limit=2&marker=$d"), &[E]).shows("/next", "null"),
        // A full page links to a next page, even to an empty one.
        finds(list!("&limit=5"), &[A, B, C, D, E]).shows(
            "/next",
            r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=5&marker=$e""#,
        ),
        finds(list!("&limit=5&marker=$e"), &[]).shows("/next", "null"),
        finds(list!("&limit=2000"), &[A, B, C, D, E]),
        finds(list!("&limit=0"), &[]).shows("/next", "null"),
        get("/images?k=$fresh&name=x%20y%26z&tag=p&tag=q")
            .shows("/first", r#""/v2/images?k=$fresh&name=x+y%26z&tag=q""#),
        refuses(get("/images?limit=-1"), 400, "*"),
        refuses(get("/images?limit=x"), 400, "*"),
        refuses(
            get("/images?marker=nosuch"),
            400,
            "No image found with ID nosuch",
        ),
        delete("/images/$c"),
        finds(list!("&marker=$c"), &[D, E]).row("deleted marker as an admin"),
        refuses(
            get("/images?marker=$c").by(Demo),
            400,
            "No image found with ID $c",
        )
        .row("deleted marker"),
    ]);
    for _ in 0..=PAGE_ROWS {
        steps.push(post("/images", r#"{"name": "$fresh"}"#));
    }
    steps.extend([
        get("/images?name=$fresh&limit=26&sort=id").save("page"),
        get("/images?name=$fresh&sort=id")
            .shows("/images/24/id", r#""$page.images.24.id""#)
            .shows("/images/25", "null")
            .shows(
                "/next",
                r#""/v2/images?name=$fresh&sort=id&marker=$page.images.24.id""#,
            )
            .row("page without a limit"),
    ]);
    scene(steps)
}

const PAGE_OF_404: &str = r#""<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  No image found with ID &lt;x&gt;<br /><br />\n\n\n\n </body>\n</html>""#;
const JSON_OF_404: &str = r#"{"message": "No image found with ID x<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"}"#;
const UNAUTHORIZED: &str = "This server could not verify that you are authorized to access the document you requested. Either you supplied the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials required.";

/// Refusals in HTML or JSON, as the `Accept` header says.
pub(super) fn refusals() -> Vec<Step> {
    let missing = |path, accept| get(path).status(404).header("accept", accept);
    scene(vec![
        missing("/images/x", "application/json").shows("", JSON_OF_404),
        missing("/images/%3Cx%3E", "text/html").shows("", PAGE_OF_404),
        missing("/images/%3Cx%3E", "*/*").shows("", PAGE_OF_404),
        refuses(get("/images").by(BadToken), 401, UNAUTHORIZED).row("image call with a bad token"),
        post("/images", NAMED).save("i"),
        refuses(step("DELETE", "/images"), 405, "*"),
        refuses(step("PUT", "/images/$i"), 405, "*"),
        refuses(
            get("/images/$i/nosuch"),
            404,
            "The resource could not be found.",
        ),
        refuses(get("/nosuch"), 404, "The resource could not be found."),
    ])
}
