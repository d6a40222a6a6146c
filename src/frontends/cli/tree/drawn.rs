//! A deletion's tree as a drawing: for Graphviz, for Mermaid, or as SVG. Four or more equal siblings without
//! children are one node, each site is a cluster of its own, and the colour of a node is that of its state, which its
//! label names too.

use std::collections::BTreeMap;
use std::io::{self, Write};

use maud::{Markup, html};

use super::{Node, describe, fold};
use crate::domain::model::{Site, StepState};
use crate::frontends::cli::args::Format;
use crate::frontends::cli::output::{Printer, Style};

/// One node of the drawing: a step, or several that read the same.
struct Drawn<'n> {
    /// The index of the node that waits for this one.
    parent: Option<usize>,
    depth: usize,
    label: String,
    state: StepState,
    site: &'n Site,
}

/// Height of a line of the SVG, its indent for each level, the width of a character, and the margin, in pixels.
const LINE: usize = 24;
const INDENT: usize = 28;
const CHARACTER: usize = 8;
const MARGIN: usize = 12;

/// Fill colour of a state; text on it is black.
fn colour(state: StepState) -> &'static str {
    match state {
        StepState::Gone => "#c8e6c9",
        StepState::Stuck => "#ffcdd2",
        StepState::Blocked | StepState::Purged => "#ffe0b2",
        StepState::Ready | StepState::Running | StepState::Verifying => "#bbdefb",
        StepState::Waiting | StepState::Skipped => "#eeeeee",
    }
}

/// Draws the tree; false if the format does not draw.
pub fn draw(out: &mut Printer<'_>, roots: &[Node<'_>]) -> io::Result<bool> {
    let write: fn(&mut dyn Write, Style, &[Drawn<'_>]) -> io::Result<()> = match out.format {
        Format::Dot => write_as_dot,
        Format::Mermaid => write_as_mermaid,
        Format::Svg => write_as_svg,
        _ => return Ok(false),
    };
    let mut nodes = Vec::new();
    add(roots, None, 0, &mut nodes);
    write(out.stream, out.style, &nodes)?;
    Ok(true)
}

/// Adds the nodes of a level and of the levels below it, each before those that must go before it.
fn add<'n>(nodes: &'n [Node<'_>], parent: Option<usize>, depth: usize, all: &mut Vec<Drawn<'n>>) {
    for group in fold(nodes) {
        let Some(first) = group.first() else { continue };
        let place = all.len();
        all.push(Drawn {
            parent,
            depth,
            label: describe(&group),
            state: first.step.state,
            site: &first.step.resource.key.site,
        });
        if let [one] = group.as_slice() {
            add(&one.children, Some(place), depth + 1, all);
        }
    }
}

/// The indexes of the nodes at each site.
fn by_site<'d>(nodes: &'d [Drawn<'_>]) -> BTreeMap<&'d Site, Vec<usize>> {
    let mut sites: BTreeMap<&Site, Vec<usize>> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        sites.entry(node.site).or_default().push(place);
    }
    sites
}

/// Writes the tree for Graphviz: an arrow leads from a step to the step that waits for it.
fn write_as_dot(out: &mut dyn Write, style: Style, nodes: &[Drawn<'_>]) -> io::Result<()> {
    writeln!(out, "digraph deletion {{")?;
    writeln!(out, "  rankdir=LR; node [shape=box, style=filled];")?;
    for (cluster, (site, places)) in by_site(nodes).into_iter().enumerate() {
        let site = style.dot(&site.to_string());
        writeln!(out, "  subgraph cluster_{cluster} {{")?;
        writeln!(out, "    label={site};")?;
        for place in places {
            let node = &nodes[place];
            let (label, colour) = (style.dot(&node.label), colour(node.state));
            writeln!(out, "    s{place} [label={label}, fillcolor=\"{colour}\"];")?;
        }
        writeln!(out, "  }}")?;
    }
    for (place, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            writeln!(out, "  s{place} -> s{parent};")?;
        }
    }
    writeln!(out, "}}")
}

fn write_as_mermaid(out: &mut dyn Write, style: Style, nodes: &[Drawn<'_>]) -> io::Result<()> {
    writeln!(out, "flowchart LR")?;
    for (cluster, (site, places)) in by_site(nodes).into_iter().enumerate() {
        let site = style.mermaid(&site.to_string());
        writeln!(out, "  subgraph site{cluster}[\"{site}\"]")?;
        for place in places {
            let label = style.mermaid(&nodes[place].label);
            writeln!(out, "    s{place}[\"{label}\"]")?;
        }
        writeln!(out, "  end")?;
    }
    for (place, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            writeln!(out, "  s{place} --> s{parent}")?;
        }
    }
    for (place, node) in nodes.iter().enumerate() {
        writeln!(out, "  style s{place} fill:{}", colour(node.state))?;
    }
    Ok(())
}

/// Writes the tree as SVG: a line for each node, indented below the one that waits for it; one site below the other.
fn write_as_svg(out: &mut dyn Write, style: Style, nodes: &[Drawn<'_>]) -> io::Result<()> {
    let sites = by_site(nodes);
    // The line of each node; a site's name takes a line, and another one is left free below the site.
    let mut lines = vec![0; nodes.len()];
    let mut line = 0;
    let mut headings = Vec::new();
    for (site, places) in &sites {
        headings.push((line, places.len() + 1, site.to_string()));
        for (nth, place) in places.iter().enumerate() {
            lines[*place] = line + 1 + nth;
        }
        line += places.len() + 2;
    }
    let widths = nodes
        .iter()
        .map(|node| node.depth * INDENT + (node.label.chars().count() + 4) * CHARACTER);
    let width = widths.max().unwrap_or_default() + 4 * MARGIN;
    let height = line * LINE + MARGIN;
    let drawing: Markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}")) width=(width)
            height=(height) font-family="monospace" font-size="13" {
            @for (line, length, site) in &headings {
                rect x=(MARGIN) y=(MARGIN + line * LINE) width=(width - 2 * MARGIN) height=(length * LINE) fill="none"
                    stroke="#757575" {}
                text x=(2 * MARGIN) y=(MARGIN + line * LINE + 16) font-weight="bold" { (style.safe(site)) }
            }
            @for (node, line) in nodes.iter().zip(&lines) {
                @if let Some(from) = node.parent.map(|parent| lines[parent]) {
                    path d=(branch(node.depth, from, *line)) fill="none" stroke="#757575" {}
                }
                rect x=(left(node.depth)) y=(MARGIN + line * LINE + 2) height=(LINE - 4)
                    width=((node.label.chars().count() + 2) * CHARACTER) fill=(colour(node.state)) stroke="#424242" {}
                text x=(left(node.depth) + CHARACTER) y=(MARGIN + line * LINE + 16) { (style.safe(&node.label)) }
            }
        }
    };
    writeln!(out, "{}", drawing.into_string())
}

/// The left edge of the box of a node at this depth.
fn left(depth: usize) -> usize {
    2 * MARGIN + depth * INDENT
}

/// The line from the node above to a node, with one corner.
fn branch(depth: usize, from: usize, to: usize) -> String {
    let x = left(depth) - INDENT / 2;
    let top = MARGIN + from * LINE + LINE - 2;
    let bottom = MARGIN + to * LINE + LINE / 2;
    format!("M{x} {top} V{bottom} H{}", left(depth))
}
