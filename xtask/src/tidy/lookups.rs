//! Functions that look something up by a name that they are given: `fn field(name: &str)` with
//! `arg.name == name` in it. Who calls one with a name of the table compares with that name.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{BinOp, Expr, FnArg, Pat, Type};

use super::sources::bare;

/// Names of such functions, methods and closures.
#[derive(Default)]
pub struct Lookups {
    /// The names.
    pub names: BTreeSet<String>,
}

impl Lookups {
    fn add(&mut self, name: &syn::Ident, parameters: Vec<String>, body: impl FnOnce(&mut Search)) {
        let mut search = Search { parameters, found: false };
        body(&mut search);
        if search.found {
            self.names.insert(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Lookups {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let parameters = texts(&item.sig);
        self.add(&item.sig.ident, parameters, |search| search.visit_block(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let parameters = texts(&item.sig);
        self.add(&item.sig.ident, parameters, |search| search.visit_block(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let (Pat::Ident(name), Some(init)) = (&local.pat, &local.init)
            && let Expr::Closure(closure) = &*init.expr
        {
            let parameters = closure.inputs.iter().filter_map(variable).collect();
            self.add(&name.ident, parameters, |search| search.visit_expr(&closure.body));
        }
        visit::visit_local(self, local);
    }
}

/// Parameters that are strings.
fn texts(signature: &syn::Signature) -> Vec<String> {
    let is_text = |ty: &Type| match ty {
        Type::Reference(inner) => match &*inner.elem {
            Type::Path(path) => path.path.is_ident("str"),
            _ => false,
        },
        _ => false,
    };
    let texts = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) if is_text(&typed.ty) => variable(&typed.pat),
        _ => None,
    });
    texts.collect()
}

fn variable(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(name) => Some(name.ident.to_string()),
        Pat::Type(typed) => variable(&typed.pat),
        Pat::Reference(inner) => variable(&inner.pat),
        _ => None,
    }
}

/// Looks for a comparison of a parameter with something that is not written there.
struct Search {
    parameters: Vec<String>,
    found: bool,
}

impl Search {
    fn is_parameter(&self, expr: &Expr) -> bool {
        let Expr::Path(path) = bare(expr) else { return false };
        self.parameters.iter().any(|parameter| path.path.is_ident(parameter))
    }
}

impl<'ast> Visit<'ast> for Search {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)) {
            let sides = [(&*binary.left, &*binary.right), (&*binary.right, &*binary.left)];
            let asks =
                |(one, other)| self.is_parameter(one) && !matches!(bare(other), Expr::Lit(_));
            self.found |= sides.into_iter().any(asks);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func
            && function.path.segments.last().is_some_and(|last| last.ident == "by_name")
        {
            self.found |= call.args.iter().any(|argument| self.is_parameter(argument));
        }
        visit::visit_expr_call(self, call);
    }
}
