-- An item that an operator has closed sells nothing more: 1. What somebody holds or
-- owns of it stays, and what comes back waits in free until it is opened.
ALTER TABLE items ADD COLUMN closed BIGINT NOT NULL DEFAULT 0;
