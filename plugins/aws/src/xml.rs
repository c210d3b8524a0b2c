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
pub fn items<'a, 'i>(node: Node<'a, 'i>, list: &str) -> impl Iterator<Item = Node<'a, 'i>> {
    let list = child(node, list).into_iter();
    list.flat_map(|list| list.children())
        .filter(|item| is_called(*item, "item") || is_called(*item, "member"))
}

/// Tags as EC2 lists them.
pub fn tags<'a>(node: Node<'a, '_>, list: &str) -> Vec<(&'a str, &'a str)> {
    let tags = items(node, list);
    tags.filter_map(|tag| Some((text(tag, "key")?, text(tag, "value").unwrap_or_default())))
        .collect()
}

/// Whether an element is called so.
pub fn is_called(node: Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}
