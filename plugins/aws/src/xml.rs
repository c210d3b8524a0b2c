//! Reads the XML that AWS answers with. What is not there is none; nothing here panics, whatever the bytes are.

use roxmltree::{Document, Node, ParsingOptions};

/// Elements that are read of one answer at most.
const MOST_NODES: u32 = 400_000;

/// Takes an answer apart. Entities of its own (a DTD) are refused.
pub fn document(text: &str) -> Option<Document<'_>> {
    let options = ParsingOptions {
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).ok()
}

/// The first child of this name, in whatever namespace.
pub fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| is_called(*child, name))
}

/// The text of the child of this name, if it is not empty.
pub fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let text = child(node, name)?.text()?.trim();
    Some(text).filter(|text| !text.is_empty())
}

/// The elements of a list, `item` in EC2 and `member` in Auto Scaling.
pub fn items<'a, 'i>(node: Node<'a, 'i>, list: &str) -> Vec<Node<'a, 'i>> {
    let mut items = Vec::new();
    let mut next = child(node, list).and_then(|list| list.first_child());
    while let Some(item) = next {
        if is_called(item, "item") || is_called(item, "member") {
            items.push(item);
        }
        next = item.next_sibling();
    }
    items
}

/// What is read of each element of a list, which may be absent; none if one of them cannot be read. Leaving it out would make a machine or a
/// group look as if it were gone.
pub fn read_all<T>(
    node: Node<'_, '_>,
    list: &str,
    read: impl Fn(Node<'_, '_>) -> Option<T>,
) -> Option<Vec<T>> {
    let mut all = Vec::new();
    for item in items(node, list) {
        all.push(read(item)?);
    }
    Some(all)
}

/// The first element of a list.
pub fn first<'a, 'i>(node: Node<'a, 'i>, list: &str) -> Option<Node<'a, 'i>> {
    items(node, list).first().copied()
}

/// Whether an element is called so.
pub fn is_called(node: Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}
