//! Glance's scenes about lists, paths and the forms of a refusal.
//!
//! `$fresh` is a name that no other image has.
use super::Who::{BadToken, Demo};
use super::images::{NAMED, refuses, scene};
use super::{Step, delete, get, post, put, step};

/// Images a to e: private, shared, shared and accepted, public, community; and f, hidden.
fn shelf() -> Vec<Step> {
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

/// The list, by name, shows just these images.
fn finds(step: Step, names: &'static [&'static str]) -> Step {
    const PLACES: [(&str, &str); 7] = [
        ("/images/0", "/images/0/name"),
        ("/images/1", "/images/1/name"),
        ("/images/2", "/images/2/name"),
        ("/images/3", "/images/3/name"),
        ("/images/4", "/images/4/name"),
        ("/images/5", "/images/5/name"),
        ("/images/6", "/images/6/name"),
    ];
    let mut step = step;
    for (place, name) in PLACES.iter().zip(names) {
        step = step.shows(place.1, name);
    }
    step.shows(PLACES[names.len()].0, "null")
}

macro_rules! ours {
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

/// Who sees what.
pub(super) fn lists() -> Vec<Step> {
    let mut steps = shelf();
    steps.extend([
        finds(ours!(""), &[A, B, C, D, E])
            .shows("/schema", r#""/v2/schemas/images""#)
            .shows("/first", r#""/v2/images?k=$fresh&sort=name%3Aasc""#)
            .shows("/next", "null"),
        finds(ours!("").by(Demo), &[C, D]),
        finds(ours!("&visibility=all"), &[A, B, C, D, E]),
        finds(ours!("&visibility=all").by(Demo), &[C, D, E]).row("list as a member"),
        finds(ours!("&visibility=community").by(Demo), &[E]),
        finds(ours!("&visibility=shared"), &[B, C]),
        finds(ours!("&visibility=shared").by(Demo), &[C]),
        finds(ours!("&visibility=private"), &[A]),
        finds(ours!("&visibility=private").by(Demo), &[]),
        finds(ours!("&visibility=public").by(Demo), &[D]),
        finds(ours!("&member_status=pending"), &[A, B, C, D, E]),
        finds(ours!("&member_status=pending").by(Demo), &[B, D]),
        finds(ours!("&member_status=all").by(Demo), &[B, C, D])
            .row("list of all shared images as a member"),
        finds(ours!("&member_status=rejected").by(Demo), &[D]),
        finds(ours!("&os_hidden=true"), &[F]).row("hidden image"),
        finds(get("/images?id=in:$f"), &[]),
        finds(get("/images?id=in:$f&os_hidden=true"), &[F]),
        finds(ours!("&os_hidden=true").by(Demo), &[]),
        finds(ours!("&owner=$a.owner"), &[A, B, C, D, E]),
        finds(ours!("&owner=$demo"), &[]),
        delete("/images/$c"),
        finds(ours!("").by(Demo), &[D]),
    ]);
    scene(steps)
}

pub(super) fn filters() -> Vec<Step> {
    let mut steps = shelf();
    steps.extend([
        finds(ours!("&id=$a&id=$b"), &[B]).row("filter given twice"),
        finds(ours!("&id=in:$a,$b"), &[A, B]).row("many values of a filter"),
        finds(ours!("&name=in:a,c"), &[A, C]),
        finds(ours!("&name=in:%22a%22,c"), &[A, C]),
        finds(ours!("&name=a"), &[A]),
        finds(ours!("&name=eq:a"), &[A]),
        finds(ours!("&name="), &[]),
        // The database's way to compare.
        finds(ours!("&name=A"), &[A]).row("filter in another case"),
        finds(ours!("&size_of=large"), &[B]),
        finds(ours!("&size_of=eq:Large"), &[]),
        finds(ours!("&status=queued"), &[A, B, C, D, E]),
        finds(ours!("&status=in:active,queued"), &[A, B, C, D, E]),
        finds(ours!("&status=active"), &[]),
        finds(ours!("&protected=true"), &[D]),
        finds(ours!("&disk_format=raw"), &[C]),
        finds(ours!("&tag=t1"), &[A, B]),
        finds(ours!("&tag=t1&tag=t2&limit=1"), &[A])
            .shows(
                "/next",
                r#""/v2/images?k=$fresh&sort=name%3Aasc&tag=t2&limit=1&marker=$a""#,
            )
            .row("tag given twice"),
        finds(ours!("&nosuch=x"), &[]),
        finds(ours!("&fields=id"), &[]).row("unknown filter"),
        finds(ours!("&min_disk=7"), &[A]),
        finds(ours!("&min_disk_min=5"), &[A]),
        finds(ours!("&min_disk_max=5"), &[B, C, D, E]),
        finds(ours!("&size=5"), &[]),
        finds(
            ours!("&created_at=gt:2020-01-01T00:00:00Z"),
            &[A, B, C, D, E],
        ),
        finds(ours!("&created_at=lt:2020-01-01T00:00:00Z"), &[]),
        finds(
            ours!("&updated_at=gte:2020-01-01T00:00:00Z"),
            &[A, B, C, D, E],
        ),
        finds(ours!("&deleted=true"), &[A, B, C, D, E]),
    ]);
    let refused = [
        (
            "/images?name=neq:a",
            "Unable to filter by unknown operator 'neq'.",
        ),
        (
            "/images?name=in:%22a",
            "Invalid filter value \"a. The quote is not closed.",
        ),
        (
            "/images?name=in:%22a%22b",
            "Invalid filter value \"a\"b. There is no comma after closing quotation mark.",
        ),
        (
            "/images?protected=True",
            "Invalid value 'True' for 'protected' filter. Valid values are 'true' or 'false'.",
        ),
        (
            "/images?os_hidden=x",
            "Invalid value 'x' for 'os_hidden' filter. Valid values are 'true' or 'false'.",
        ),
        ("/images?visibility=x", "Invalid visibility value: x"),
        ("/images?member_status=x", "Invalid status: x"),
        (
            "/images?size_min=x",
            "Unable to filter on a range with a non-numeric value.",
        ),
        (
            "/images?created_at=x",
            "Bad \"created_at\" query filter format. Use ISO 8601 DateTime notation.",
        ),
        (
            "/images?changes-since=x",
            "The \"changes-since\" filter is no longer available on v2.",
        ),
    ];
    steps.extend(refused.map(|(path, message)| refuses(get(path), 400, message)));
    steps.push(refuses(
        get("/images?properties=x"),
        500,
        "The server has either erred or is incapable of performing the requested operation.",
    ));
    scene(steps)
}

pub(super) fn sorting() -> Vec<Step> {
    let mut steps = shelf();
    steps.extend([
        finds(
            get("/images?k=$fresh&sort_key=name&sort_dir=asc"),
            &[A, B, C, D, E],
        ),
        finds(get("/images?k=$fresh&sort_key=name"), &[E, D, C, B, A]),
        finds(get("/images?k=$fresh&sort=name"), &[E, D, C, B, A]),
        finds(
            get("/images?k=$fresh&sort_key=disk_format&sort_key=name&sort_dir=asc"),
            &[A, B, D, E, C],
        ),
        finds(
            get("/images?k=$fresh&sort_key=disk_format&sort_key=name&sort_dir=desc&sort_dir=asc"),
            &[C, A, B, D, E],
        ),
        finds(
            get("/images?k=$fresh&sort=disk_format:desc,name:asc"),
            &[C, A, B, D, E],
        ),
    ]);
    let refused = [
        ("/images?sort_key=nosuch", INVALID_KEY),
        ("/images?sort_dir=x", "Invalid sort direction: x"),
        ("/images?sort=name:x", "Invalid sort direction: x"),
        (
            "/images?sort_key=name&sort_dir=asc&sort_dir=desc",
            "Number of sort dirs does not match the number of sort keys",
        ),
        (
            "/images?sort=name&sort_key=id",
            "Old and new sorting syntax cannot be combined",
        ),
    ];
    steps.extend(refused.map(|(path, message)| refuses(get(path), 400, message)));
    scene(steps)
}

const INVALID_KEY: &str = "Invalid sort key: nosuch. It must be one of the following: name, status, container_format, disk_format, size, id, created_at, updated_at.";

/// Images on a page, when the request does not say how many.
const PAGE: usize = 25;

pub(super) fn pages() -> Vec<Step> {
    let mut steps = shelf();
    steps.extend([
        finds(ours!("&limit=2"), &[A, B])
            .shows("/first", r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2""#)
            .shows(
                "/next",
                r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2&marker=$b""#,
            )
            .row("page"),
        finds(ours!("&limit=2&marker=$b"), &[C, D])
            .shows("/first", r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2""#)
            .shows(
                "/next",
                r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=2&marker=$d""#,
            ),
        finds(ours!("&limit=2&marker=$d"), &[E]).shows("/next", "null"),
        // A page that is just full has a next one, which is empty.
        finds(ours!("&limit=5"), &[A, B, C, D, E]).shows(
            "/next",
            r#""/v2/images?k=$fresh&sort=name%3Aasc&limit=5&marker=$e""#,
        ),
        finds(ours!("&limit=5&marker=$e"), &[]).shows("/next", "null"),
        finds(ours!("&limit=2000"), &[A, B, C, D, E]),
        finds(ours!("&limit=0"), &[]).shows("/next", "null"),
        // The second of two is taken for a filter.
        finds(ours!("&limit=2&limit=3"), &[]),
        get("/images?k=$fresh&name=x%20y%26z&tag=p&tag=q")
            .shows("/first", r#""/v2/images?k=$fresh&name=x+y%26z&tag=q""#),
        refuses(get("/images?limit=-1"), 400, "limit param must be positive"),
        refuses(
            get("/images?limit=x"),
            400,
            "limit param must be an integer",
        ),
        refuses(
            get("/images?marker=nosuch"),
            400,
            "No image found with ID nosuch",
        ),
        refuses(
            get("/images?marker=$a").by(Demo),
            403,
            "Forbidding request, image $a not visible",
        ),
        delete("/images/$c"),
        finds(ours!("&marker=$c"), &[D, E]).row("deleted marker as an admin"),
        refuses(
            get("/images?marker=$c").by(Demo),
            400,
            "No image found with ID $c",
        )
        .row("deleted marker"),
    ]);
    for _ in 0..=PAGE {
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
            .row("page of no size"),
    ]);
    scene(steps)
}

const PAGE_OF_404: &str = r#""<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  No image found with ID &lt;x&gt;<br /><br />\n\n\n\n </body>\n</html>""#;
const TEXT_OF_404: &str = r#""404 Not Found\n\nNo image found with ID x\n\n   ""#;
const JSON_OF_404: &str = r#"{"message": "No image found with ID x<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"}"#;
const UNAUTHORIZED: &str = "This server could not verify that you are authorized to access the document you requested. Either you supplied the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials required.";

/// HTML, JSON or text: as the request likes it.
pub(super) fn refusals() -> Vec<Step> {
    let missing = |path, accept| get(path).status(404).header("accept", accept);
    let mut steps = Vec::new();
    for accept in [
        "application/json",
        "application/*",
        "*/*;q=0.1, application/json",
        "text/html;q=0.5, application/json",
    ] {
        steps.push(missing("/images/x", accept).shows("", JSON_OF_404));
    }
    for accept in [
        "text/html",
        "*/*",
        "text/*",
        "application/json, text/html",
        "text/plain, */*",
        "bad",
    ] {
        steps.push(missing("/images/%3Cx%3E", accept).shows("", PAGE_OF_404));
    }
    for accept in [
        ",",
        "text/plain",
        "application/xml",
        "application/json;q=0",
        "application/json;charset=utf-8",
    ] {
        steps.push(missing("/images/x", accept).shows("", TEXT_OF_404));
    }
    steps.extend([
        refuses(get("/images").by(BadToken), 401, UNAUTHORIZED).row("image call with a bad token"),
        get("/images?name=x:a")
            .header("accept", "text/html")
            .status(400)
            .shows("", r#""<html>\n <head>\n  <title>400 Bad Request</title>\n </head>\n <body>\n  <h1>400 Bad Request</h1>\n  Unable to filter by unknown operator &#x27;x&#x27;.<br /><br />\n\n\n\n </body>\n</html>""#),
        step("POST", "/images/x")
            .header("accept", "text/html")
            .status(405)
            .shows("", r#""<html>\n <head>\n  <title>405 Method Not Allowed</title>\n </head>\n <body>\n  <h1>405 Method Not Allowed</h1>\n  The method POST is not allowed for this resource. <br /><br />\n\n </body>\n</html>""#),
        step("POST", "/images/x")
            .header("accept", "text/plain")
            .status(405)
            .shows("", r#""405 Method Not Allowed\n\nThe method POST is not allowed for this resource. \n\n ""#),
        step("PATCH", "/images/x")
            .header("accept", "text/plain")
            .header("content-type", "x/y")
            .status(415)
            .shows("", r#""415 Unsupported Media Type\n\nThe request media type x/y is not supported by this server. \n\n Image PATCH expects Content-Type one of: application/openstack-images-v2.0-json-patch, application/openstack-images-v2.1-json-patch""#),
    ]);
    scene(steps)
}

pub(super) fn paths() -> Vec<Step> {
    let mut steps = vec![post("/images", NAMED).save("i")];
    for (method, path, message) in [
        (
            "DELETE",
            "/images",
            "The method DELETE is not allowed for this resource.",
        ),
        (
            "PUT",
            "/images/$i",
            "The method PUT is not allowed for this resource.",
        ),
        (
            "POST",
            "/images/$i/file",
            "The method POST is not allowed for this resource.",
        ),
        (
            "GET",
            "/images/$i/tags/x",
            "The method GET is not allowed for this resource.",
        ),
        (
            "GET",
            "/images/$i/actions/deactivate",
            "The method GET is not allowed for this resource.",
        ),
        (
            "DELETE",
            "/images/$i/members",
            "The method DELETE is not allowed for this resource.",
        ),
        (
            "POST",
            "/images/$i/members/x",
            "The method POST is not allowed for this resource.",
        ),
    ] {
        steps.push(refuses(step(method, path), 405, message));
    }
    for path in [
        "",
        "/nosuch",
        "/images/",
        "/images/$i/",
        "/images/$i/tags",
        "/images/$i/nosuch",
    ] {
        steps.push(refuses(get(path), 404, "The resource could not be found."));
    }
    scene(steps)
}
