//! What is known of one function.

use syn::{
    FnArg, Signature,
    spanned::Spanned,
    visit::{self, Visit},
};

/// A function of more lines than these is named in the report.
pub const MAX_LINES: usize = 60;

/// What the name of a function begins with that answers a question.
const PREDICATES: [&str; 4] = ["is_", "has_", "can_", "holds_"];

/// A function that has a body.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, without the type it belongs to.
    pub name: String,
    /// Its file, by its number in the crate.
    pub file: usize,
    /// The line on which its signature begins.
    pub line: usize,
    /// From the first line of its signature to its closing brace.
    pub lines: usize,
    /// Whether a parameter, or the receiver, can be written to.
    pub takes_mut: bool,
}

impl Function {
    /// What a signature and the last line of its body say.
    pub(crate) fn of(file: usize, signature: &Signature, last_line: usize) -> Self {
        let line = signature.span().start().line;
        Self {
            name: signature.ident.to_string(),
            file,
            line,
            lines: last_line.saturating_sub(line) + 1,
            takes_mut: signature.inputs.iter().any(is_written_to),
        }
    }

    /// Whether its name promises an answer and its parameters let it write.
    pub fn is_writing_predicate(&self) -> bool {
        self.takes_mut && PREDICATES.iter().any(|prefix| self.name.starts_with(prefix))
    }
}

/// Whether a parameter's type has a `&mut` in it. A function that is passed may write: it is no parameter of this kind.
fn is_written_to(argument: &FnArg) -> bool {
    struct Found(bool);
    impl<'ast> Visit<'ast> for Found {
        fn visit_type_reference(&mut self, reference: &'ast syn::TypeReference) {
            self.0 |= reference.mutability.is_some();
            visit::visit_type_reference(self, reference);
        }
        fn visit_parenthesized_generic_arguments(&mut self, _: &'ast syn::ParenthesizedGenericArguments) {}
    }
    match argument {
        FnArg::Receiver(receiver) => receiver.reference.is_some() && receiver.mutability.is_some(),
        FnArg::Typed(typed) => {
            let mut found = Found(false);
            found.visit_type(&typed.ty);
            found.0
        }
    }
}
