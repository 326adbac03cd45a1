//! Makes syntax trees plain, so that no rule needs to know of tests and macros.

use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, ExprMatch, ExprTuple, Item, ItemConst, Macro, Stmt, Token};

/// Removes what is built for tests alone, and puts the arguments of a macro in its place: a tuple
/// of expressions, a `match` for `matches!`, and items where it stands among them. Macros whose
/// arguments are none of these stay as they are.
pub struct Plain;

impl VisitMut for Plain {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        make_plain(&mut file.items);
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            make_plain(items);
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        item.items.retain(|item| match item {
            syn::ImplItem::Fn(item) => !is_test(&item.attrs),
            syn::ImplItem::Const(item) => !is_test(&item.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, item);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            Stmt::Item(item) => !is_test(attributes(item)),
            _ => true,
        });
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_stmt_mut(&mut self, statement: &mut Stmt) {
        if let Stmt::Macro(inner) = statement
            && let Some(arguments) = arguments(&inner.mac)
        {
            *statement = Stmt::Expr(arguments, inner.semi_token.take());
        }
        visit_mut::visit_stmt_mut(self, statement);
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Macro(inner) = expr
            && let Some(arguments) = arguments(&inner.mac)
        {
            *expr = arguments;
        }
        visit_mut::visit_expr_mut(self, expr);
    }
}

fn make_plain(items: &mut Vec<Item>) {
    let all = std::mem::take(items);
    for item in all.into_iter().filter(|item| !is_test(attributes(item))) {
        match &item {
            Item::Macro(inner) if inner.ident.is_none() => items.extend(items_of(&inner.mac)),
            _ => items.push(item),
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    })
}

/// The items that a macro among items has as its arguments (`thread_local!`), or a constant that
/// has its arguments as its value.
fn items_of(call: &Macro) -> Vec<Item> {
    if let Ok(file) = syn::parse2::<syn::File>(call.tokens.clone()) {
        return file.items;
    }
    let Some(arguments) = arguments(call) else { return Vec::new() };
    let Ok(mut constant) = syn::parse_str::<ItemConst>("const _: () = ();") else {
        return Vec::new();
    };
    constant.expr = Box::new(arguments);
    vec![Item::Const(constant)]
}

fn arguments(call: &Macro) -> Option<Expr> {
    let tokens = call.tokens.clone();
    if call.path.is_ident("matches") {
        let Matches(plain) = syn::parse2(tokens).ok()?;
        return Some(Expr::Match(plain));
    }
    let list = Punctuated::<Expr, Token![,]>::parse_terminated;
    let elems = list.parse2(tokens).ok()?;
    let attrs = Vec::new();
    Some(Expr::Tuple(ExprTuple { attrs, paren_token: Default::default(), elems }))
}

/// `matches!(expr, pattern if guard)` as a `match` with one arm, whose body is the guard.
struct Matches(ExprMatch);

impl Parse for Matches {
    fn parse(input: ParseStream) -> syn::Result<Matches> {
        let expr = Box::new(input.parse()?);
        input.parse::<Token![,]>()?;
        let pat = syn::Pat::parse_multi_with_leading_vert(input)?;
        let body = match input.parse::<Option<Token![if]>>()? {
            Some(_) => input.parse()?,
            None => Box::new(syn::parse_str::<Expr>("true")?),
        };
        input.parse::<Option<Token![,]>>()?;
        let (fat_arrow_token, comma) = Default::default();
        let arm = syn::Arm { attrs: Vec::new(), pat, fat_arrow_token, body, comma };
        let (match_token, brace_token) = Default::default();
        Ok(Matches(ExprMatch {
            attrs: Vec::new(),
            match_token,
            expr,
            brace_token,
            arms: vec![arm],
        }))
    }
}
