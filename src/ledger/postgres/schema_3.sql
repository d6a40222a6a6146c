-- Version 3: what ended in the last day is counted.
CREATE INDEX deletions_by_end ON deletions(finished_at) WHERE finished_at IS NOT NULL;
