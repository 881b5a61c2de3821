//! Which resources have a name, and which a project has, by the table that they are in. Knows labels;
//! refuses to know what they are on.

use super::relation::{Member, Relation};
use crate::counts::{Counts, Edit};
use catena_model::ProjectId;
use catena_model::resource::Label;
use uuid::Uuid;

impl Member for Uuid {
    const MIN: Self = Uuid::nil();
}

/// The name of a table.
type TableName = &'static str;

/// A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Labels {
    named: Relation<(TableName, String), Uuid>,
    owned: Relation<(TableName, ProjectId), Uuid>,
    counts: Counts<(TableName, ProjectId)>,
}

impl Labels {
    pub(super) fn edit(&mut self, edit: Edit, table: TableName, id: Uuid, label: &Label) {
        if !label.name.is_empty() {
            self.named.edit(edit, (table, label.name.clone()), id);
        }
        self.owned.edit(edit, (table, label.project.clone()), id);
        self.counts.edit(edit, (table, label.project.clone()));
    }

    /// Those with a name that is not empty, in order.
    pub(super) fn named(
        &self,
        table: TableName,
        name: &str,
    ) -> impl Iterator<Item = Uuid> + use<'_> {
        self.named.of((table, name.to_owned()))
    }

    /// Those of a project, in order.
    pub(super) fn owned(
        &self,
        table: TableName,
        project: &ProjectId,
    ) -> impl Iterator<Item = Uuid> + use<'_> {
        self.owned.of((table, project.clone()))
    }

    /// How many these are.
    pub(super) fn count(&self, table: TableName, project: &ProjectId) -> u32 {
        self.counts.of(&(table, project.clone()))
    }
}
