-- Version 3: an index for the count of the deletions that ended in the last day.
CREATE INDEX deletions_by_end ON deletions(finished_at) WHERE finished_at IS NOT NULL;
