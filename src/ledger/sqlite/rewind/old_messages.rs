//! Translates events of older ledgers, which kept some facts only in the text of the message.

/// Adds fields that older events lack: the error of a blocked or stuck step, and the note of a refused deletion. If
/// neither the message nor the step's last error says the class of the error, the state of the step decides it.
pub(super) const TRANSLATED: &str = "
UPDATE all_events SET data = json_set(data, '$.note', substr(message, instr(message, ' refused: ') + 10))
    WHERE kind = 'deletion_refused' AND data -> 'note' IS NULL;
UPDATE all_events SET data = json_set(data, '$.error', json_object(
        'class', iif(message LIKE '% is stuck: re-created %', 'drift', 'blocked'), 'status', NULL,
        'type', iif(message LIKE '% is stuck: re-created %', 'Recreated', 'DependencyForgotten'),
        'message', substr(message, instr(message, ' is stuck: ') + 11), 'request_id', '',
        'at', strftime('%FT%H:%M:%fZ', at / 1e6, 'unixepoch')))
    WHERE kind = 'needs_person' AND data -> 'error' IS NULL;
UPDATE all_events SET data = json_set(data, '$.error', json(coalesce(
        (SELECT last_error FROM last_steps WHERE id = step AND data ->> 'request_id' <> ''
            AND last_error ->> 'request_id' = data ->> 'request_id'),
        json_object('class', iif(data ->> 'state' = 'blocked', 'blocked', 'fatal'),
            'status', data -> 'status', 'type', iif(instr(message, ' ' || (data ->> 'status') || ' '),
                substr(message, instr(message, ' ' || (data ->> 'status') || ' ')
                    + 2 + length(data ->> 'status')), ''),
            'message', message, 'request_id', coalesce(data ->> 'request_id', ''),
            'at', strftime('%FT%H:%M:%fZ', at / 1e6, 'unixepoch')))))
    WHERE kind IN ('attempt', 'step_state') AND data ->> 'state' IN ('blocked', 'stuck')
        AND data -> 'held' IS NULL AND data -> 'error' IS NULL;
";
