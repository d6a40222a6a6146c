//! The common parts of all panes with one list of rows. A pane defines its columns, its texts and what its keys do;
//! the query of its rows is in their feed.

use std::ops::Range;

use super::*;

/// The occasions on which a pane queries its rows again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// The engine has made progress, or the pane is opened or on top again.
    EachMove,
    /// The pane is opened for the first time, or a person asks: most of these answers cost calls to the clouds. In a
    /// replay, also when the pane is on top again, or the replay shows another time.
    Demand,
    /// The pane is opened or on top again; and as time passes, the more rarely the longer an answer takes
    /// ([`Feed::every`]).
    Paced,
    /// A second has passed: the rows change while the engine rests.
    Clock,
    /// Never: the rows need no query, or [`ListPane::update`] takes them from each snapshot.
    Never,
}

pub(crate) trait ListPane: Send + Sized + 'static {
    type Row: Row;
    const SCOPE: Scope;
    /// The word for one of its rows.
    const NOUN: &'static str;
    const REFRESH: Refresh = Refresh::EachMove;
    /// Number of lines that the details of a row usually take.
    const DETAIL_ROWS: u16 = 3;
    /// Whether the rows use all the width.
    const FULL_WIDTH: bool = false;
    /// The line that is shown until the first answer.
    const LOADING: &'static str = "";
    /// Lines for a list without rows, which say how rows get here, and the line for such a list in a replay. In these
    /// texts and in those of [`Self::FAILED`], an action in braces stands for its key.
    const NOTHING: &'static [&'static str];
    const NOTHING_THEN: &'static str = "";
    /// The lines in place of rows after the query has failed.
    const FAILED: &'static [&'static str] = FAILED;
    /// Whether new rows are added at the end, so that a cursor on the last row stays on the last row.
    const FOLLOWS_END: bool = false;
    /// Whether rows outside the scope are hidden. If not, and the console has a scope, the title says that the pane
    /// shows everything.
    const SCOPED: bool = true;
    /// Whether only the keys of [`Action::works_in_modal_pane`] have an effect while a command of the pane is under
    /// way.
    const MODAL: bool = false;
    /// Whether the rows are events, which are followed while the pane is on top.
    const FOLLOWS: bool = false;

    fn table(&self, rows: &Rows<Self::Row>, look: &RenderContext) -> Table<'_, Self::Row>;
    fn details(&self, row: &Self::Row, look: &RenderContext) -> Vec<Cell>;
    /// The texts of a row that [`Action::Copy`] copies, one with each press; the row itself comes after them. Empty if
    /// the row has nothing to copy.
    fn copies(&self, _rows: &Rows<Self::Row>, row: &Self::Row) -> Vec<Copied> {
        self.item(row).map_or_else(Vec::new, WorkItem::copies)
    }
    /// Performs an action on the row under the cursor.
    fn act(&mut self, row: &Self::Row, action: Action, context: &mut Context) {
        if let Some(item) = self.item(row) {
            item.act(action, context);
        }
    }
    /// Performs an action that needs no row, or many rows; returns false for any other action.
    fn act_on(&mut self, _: &mut Rows<Self::Row>, _: Action, _: &mut Context) -> bool {
        false
    }

    fn heading(&self, rows: &Rows<Self::Row>, _look: &RenderContext) -> String {
        let word = rows.list.word.as_deref().unwrap_or(Self::NOUN);
        format!("{word} {}", rows.number())
    }
    /// Returns the step or the deletion of the row, if the keys of steps and deletions apply to it.
    fn item<'r>(&self, _row: &'r Self::Row) -> Option<WorkItem<'r>> {
        None
    }
    /// Whether the rows are all that there are, so that a marked row that is missing is gone.
    fn holds_all(&self, rows: &Rows<Self::Row>) -> bool {
        rows.feed.pace.loaded && !rows.feed.has_more()
    }
    /// Lines above the rows.
    fn lead(&self, _rows: &Rows<Self::Row>, _look: &RenderContext) -> Vec<Cell> {
        Vec::new()
    }
    fn load(&self, rows: &Rows<Self::Row>) -> Load {
        rows.feed.load()
    }
    fn vacancy(&self, rows: &Rows<Self::Row>, look: &RenderContext) -> Vacancy {
        Vacancy {
            load: self.load(rows),
            noun: Self::NOUN.into(),
            loading: vec![Cell::dim(Self::LOADING)],
            failed: look.texts(Self::FAILED),
            nothing: look.texts(self.nothing(look.replays)),
        }
    }
    /// The lines for a list without rows, in a replay or not.
    fn nothing(&self, replays: bool) -> &[&'static str] {
        match replays && !Self::NOTHING_THEN.is_empty() {
            true => &[Self::NOTHING_THEN],
            false => Self::NOTHING,
        }
    }
    fn freshness(&self, rows: &Rows<Self::Row>, now: DateTime<Utc>) -> Freshness {
        match Self::REFRESH {
            Refresh::Never => Freshness::Fixed,
            refresh => rows.feed.pace.freshness(refresh != Refresh::Demand, now),
        }
    }
    /// Whether a command of this pane is under way.
    fn is_working(&self) -> bool {
        false
    }
    /// Puts the visible rows, given by their indices in [`Rows::all`], into the order of the pane, and may drop some of
    /// them.
    fn arrange(&self, _rows: &Rows<Self::Row>, _visible: &mut Vec<usize>) {}
    /// Queries of the pane besides that of its rows.
    fn others(&self) -> Vec<&dyn Refreshed> {
        Vec::new()
    }
    fn others_mut(&mut self) -> Vec<&mut dyn Refreshed> {
        Vec::new()
    }
    /// Called after an answer, before the rows are filtered.
    fn answered(&mut self, _rows: &mut Rows<Self::Row>) {}
    /// Called when the pane is opened or on top again, before it queries its rows.
    fn opened(&mut self, _rows: &mut Rows<Self::Row>, _context: &Context) {}
    /// Updates the pane from the snapshot, which is newer than the rows; returns true if rows may have been added or
    /// removed. `moved` is true if the engine has made progress, and when the pane is opened or on top again.
    fn update(&mut self, _rows: &mut Rows<Self::Row>, _context: &Context, _moved: bool) -> bool {
        false
    }
    fn followed(&mut self, _rows: &mut Rows<Self::Row>, _events: &[LedgerEvent]) {}
    fn filter_changed(&mut self, _rows: &mut Rows<Self::Row>) {}
    /// Works like [`Pane::receipt`].
    fn receipt(
        &mut self,
        _rows: &mut Rows<Self::Row>,
        _ticket: u64,
        _reply: &Reply,
        _context: &mut Context,
    ) -> bool {
        false
    }
    /// Works like [`Pane::confirmed`].
    fn confirmed(&mut self, _ticket: u64) -> bool {
        false
    }
}

/// Lists the fields that are queries of the pane besides that of its rows, as [`ListPane::others`] and
/// [`ListPane::others_mut`].
macro_rules! others {
    ($($field:ident),*) => {
        fn others(&self) -> Vec<&dyn $crate::frontends::console::panes::kit::Refreshed> {
            vec![$(&self.$field),*]
        }
        fn others_mut(&mut self) -> Vec<&mut dyn $crate::frontends::console::panes::kit::Refreshed> {
            vec![$(&mut self.$field),*]
        }
    };
}
pub(crate) use others;

struct Listed<P: ListPane> {
    pane: P,
    rows: Rows<P::Row>,
    /// Whether the console has a scope that the pane does not apply.
    is_outside_scope: bool,
}

pub(crate) fn listed<P: ListPane>(pane: P, rows: impl Into<Rows<P::Row>>) -> Box<dyn Pane> {
    let mut listed = Listed {
        pane,
        rows: rows.into(),
        is_outside_scope: false,
    };
    listed.rows.feed.pace.on_demand = P::REFRESH == Refresh::Demand;
    listed.refilter(None);
    Box::new(listed)
}

impl<P: ListPane> Listed<P> {
    /// The key of the row under the cursor, on which the cursor stays while rows are added and removed. Until the first
    /// answers are complete, a cursor that was not moved stays on the first row.
    fn held(&self) -> Option<String> {
        let is_moved = self.rows.list.cursor > 0 || self.rows.feed.pace.loaded;
        self.rows.current().filter(|_| is_moved).map(Row::key)
    }

    fn refilter(&mut self, held: Option<String>) {
        let mut visible = self.rows.fitting();
        self.pane.arrange(&self.rows, &mut visible);
        let (filter, order) = (&self.rows.list.filter, self.rows.list.order);
        if filter.has_columns() || order.is_some() {
            let now = filter.now();
            let look = &RenderContext { now, ..*ANY_SCREEN };
            let table = self.pane.table(&self.rows, look);
            let row = |at: &usize| self.rows.at(*at);
            visible.retain(|at| row(at).is_some_and(|row| table.fits(row, filter, look)));
            if let Some(Order { column, backwards }) = order {
                visible.sort_by_cached_key(|at| table.rank(column, row(at)?, look));
                if backwards {
                    visible.reverse();
                }
            }
        }
        self.rows.show(visible, held, P::FOLLOWS_END);
    }

    /// Sorts by the next column, or, after the last column, in the pane's own order; or reverses the order. Returns
    /// false if the action is another one.
    fn sort(&mut self, action: Action, context: &mut Context) -> bool {
        let List { order, columns, .. } = &self.rows.list;
        let before = order.unwrap_or_default();
        let table = self.pane.table(&self.rows, &ANY_SCREEN);
        let column = match action {
            Action::Sort => table.next_column(*order, columns),
            Action::SortBackwards => Some(before.column),
            _ => return false,
        };
        let heading = column.and_then(|column| table.heading(column));
        let backwards = before.backwards != (action == Action::SortBackwards);
        let message = match heading {
            Some(heading) if backwards => format!("sorted by {heading}, backwards"),
            Some(heading) => format!("sorted by {heading}"),
            None => "in the order of the list".to_owned(),
        };
        drop(table);
        self.rows.list.order = column.map(|column| Order { column, backwards });
        context.say(Tone::Dim, message);
        let held = self.held();
        self.refilter(held);
        true
    }

    fn invalidate(&mut self) {
        self.rows.feed.invalidate();
        for other in self.pane.others_mut() {
            other.invalidate();
        }
    }

    fn ask(&mut self, context: &mut Context) {
        if self.rows.list.cursor + 1 >= self.rows.len() {
            self.rows.feed.more();
        }
        self.rows.feed.ask(context);
        for other in self.pane.others_mut() {
            other.ask(context);
        }
    }

    fn update(&mut self, moved: bool, context: &Context) {
        let held = self.held();
        if self.pane.update(&mut self.rows, context, moved) {
            self.refilter(held);
        }
    }

    /// Performs an action on all marked rows, after a question. If the filter hides some of them, a first press only
    /// warns of these. Returns false if the action is not one on marked rows, if no row is marked, or if no marked row
    /// is a step or a deletion.
    fn act_on_marked(&mut self, action: Action, context: &mut Context) -> bool {
        if !action.acts_on_marks() || self.rows.list.marks.is_empty() {
            return false;
        }
        let none = "no marked row is listed now; {refresh} queries the rows again";
        let message = match self.rows.chosen().is_empty() {
            true => Some(none.to_owned()),
            false => self.rows.list.marks.warn_of_hidden(action),
        };
        if let Some(message) = message {
            context.say(Tone::Warn, context.keys.spell(&message));
            return true;
        }
        let chosen = self.rows.chosen();
        let items = chosen.iter().filter_map(|row| self.pane.item(row));
        let items: Vec<WorkItem> = items.collect();
        if !items.is_empty() {
            bulk::ask(&items, action, context);
        }
        !items.is_empty()
    }

    /// Marks or unmarks rows; returns false if the action is another one.
    fn mark(&mut self, action: Action, context: &mut Context) -> bool {
        let message = self.rows.mark(action);
        if let Some(Some(message)) = &message {
            context.say(Tone::Dim, message);
        }
        // Rows that the pane has not read yet are read, and then marked too.
        if action == Action::MarkAll {
            let has_more = self.rows.feed.more_up_to(MARKED_MAX, context);
            self.rows.list.marks.mark_rest = has_more;
        }
        message.is_some()
    }

    /// Marks the rows that were not read yet when the person marked all rows.
    fn mark_rest(&mut self, context: &mut Context) {
        if self.rows.list.marks.mark_rest && !self.rows.feed.is_waiting() {
            self.mark(Action::MarkAll, context);
        }
    }
}

impl<P: ListPane> Pane for Listed<P> {
    fn scope(&self) -> Scope {
        P::SCOPE
    }
    fn title(&self, look: &RenderContext) -> String {
        let mut heading = self.pane.heading(&self.rows, look);
        if self.is_outside_scope {
            heading.push_str(look.dot());
            heading.push_str("all clouds and projects");
        }
        if let Some(marked) = self.rows.list.marks.words() {
            heading.push_str(look.dot());
            heading.push_str(&marked);
        }
        heading
    }
    fn list(&self) -> &List {
        &self.rows.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.rows.list
    }
    fn len(&self) -> usize {
        self.rows.len()
    }
    fn shown(&self, rows: Range<usize>, look: &RenderContext) -> Shown {
        let rows = rows.filter_map(|row| self.rows.get(row));
        let table = self.pane.table(&self.rows, look);
        let List { columns, order, .. } = &self.rows.list;
        table.arranged(columns, *order, look).shown(rows, look)
    }
    fn is_marked(&self, row: usize) -> bool {
        let marks = &self.rows.list.marks;
        let is_marked = |row: &P::Row| marks.contains(&row.key());
        !marks.is_empty() && self.rows.get(row).is_some_and(is_marked)
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let others = self.pane.others();
        let others = others.iter().flat_map(|other| other.errors());
        let mut head = look.errors(self.rows.feed.pace.errors.iter().chain(others));
        head.extend(self.pane.lead(&self.rows, look));
        head
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let row = self.rows.current();
        row.map_or_else(Vec::new, |row| self.pane.details(row, look))
    }
    fn detail_rows(&self) -> u16 {
        P::DETAIL_ROWS
    }
    fn is_full_width(&self) -> bool {
        P::FULL_WIDTH
    }
    fn vacancy(&self, look: &RenderContext) -> Vacancy {
        self.pane.vacancy(&self.rows, look)
    }
    fn is_busy(&self) -> bool {
        let others = || self.pane.others().iter().any(|other| other.is_waiting());
        match P::REFRESH {
            Refresh::Clock => !self.rows.feed.pace.loaded,
            _ => self.rows.feed.is_waiting() || self.pane.is_working() || others(),
        }
    }
    fn freshness(&self, now: DateTime<Utc>) -> Freshness {
        self.pane.freshness(&self.rows, now)
    }
    fn is_live(&self) -> bool {
        P::REFRESH == Refresh::Clock
            || self.rows.feed.pace.is_timed()
            || self.pane.others().iter().any(|other| other.is_timed())
    }
    fn is_modal(&self) -> bool {
        P::MODAL && self.pane.is_working()
    }
    fn columns(&self) -> Vec<String> {
        self.pane.table(&self.rows, &ANY_SCREEN).names()
    }
    fn filter_changed(&mut self) {
        let held = self.held();
        self.rows.list.marks.filter_changed();
        self.pane.filter_changed(&mut self.rows);
        self.refilter(held);
    }
    fn narrow(&mut self, scope: &AppliedScope) {
        self.is_outside_scope = !P::SCOPED && !scope.query.is_empty();
        if P::SCOPED && self.rows.list.scope != *scope {
            self.rows.list.scope = scope.clone();
            self.filter_changed();
        }
    }
    fn open(&mut self, context: &mut Context) {
        let has_answer = self.rows.feed.pace.loaded && !context.replays;
        if P::REFRESH != Refresh::Demand || !has_answer {
            self.invalidate();
        }
        self.pane.opened(&mut self.rows, context);
        self.update(true, context);
        self.ask(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context) {
        if P::REFRESH == Refresh::Clock || (moved && P::REFRESH == Refresh::EachMove) {
            self.invalidate();
        }
        self.update(moved, context);
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        let held = self.held();
        let mut others = self.pane.others_mut().into_iter();
        let is_ours = self.rows.feed.answer(arrived, context)
            || others.any(|other| other.answer(arrived, context));
        if !is_ours {
            return false;
        }
        let cursor = self.rows.list.cursor;
        self.pane.answered(&mut self.rows);
        let holds_all = self.pane.holds_all(&self.rows);
        self.rows.forget_gone_marks(holds_all);
        self.refilter(held.filter(|_| self.rows.list.cursor == cursor));
        self.mark_rest(context);
        true
    }
    fn receipt(&mut self, ticket: u64, reply: &Reply, context: &mut Context) -> bool {
        let taken = (self.pane).receipt(&mut self.rows, ticket, reply, context);
        if taken {
            self.refilter(None);
            self.ask(context);
        }
        taken
    }
    fn confirmed(&mut self, ticket: u64) -> bool {
        self.pane.confirmed(ticket)
    }
    fn follows(&self) -> bool {
        P::FOLLOWS
    }
    fn followed(&mut self, events: &[LedgerEvent]) {
        if P::FOLLOWS {
            self.pane.followed(&mut self.rows, events);
            self.refilter(None);
        }
    }
    fn lost(&mut self, error: &str, now: DateTime<Utc>) {
        if P::FOLLOWS {
            self.rows.feed.fail(error.to_owned(), now);
        }
    }
    fn act(&mut self, action: Action, context: &mut Context) {
        if self.act_on_marked(action, context)
            || self.mark(action, context)
            || self.sort(action, context)
        {
            return;
        }
        if self.pane.act_on(&mut self.rows, action, context) {
            let held = self.held();
            return self.refilter(held);
        }
        match (action, self.rows.current()) {
            (Action::Refresh, _) => {
                self.invalidate();
                self.ask(context);
            }
            (Action::Copy, Some(row)) => {
                let (key, mut texts) = (row.key(), self.pane.copies(&self.rows, row));
                if !texts.is_empty() {
                    texts.push(Copied::row(self));
                }
                self.rows.list.copy(key, texts, context);
            }
            (action, Some(row)) => self.pane.act(row, action, context),
            (_, None) => {}
        }
    }
}
