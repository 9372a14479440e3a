CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL UNIQUE, password TEXT NOT NULL, name TEXT NOT NULL,
    email TEXT NOT NULL, digest TEXT NOT NULL, mentions INTEGER NOT NULL);
CREATE TABLE projects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL);
CREATE TABLE labels (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE milestones (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project_id INTEGER NOT NULL REFERENCES projects (id), title TEXT NOT NULL,
    due TEXT NOT NULL, state TEXT NOT NULL, UNIQUE (project_id, title));
CREATE TABLE issues (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project_id INTEGER NOT NULL REFERENCES projects (id), title TEXT NOT NULL,
    description TEXT NOT NULL, author_id INTEGER NOT NULL REFERENCES users (id),
    assignee_id INTEGER REFERENCES users (id), priority TEXT NOT NULL, state TEXT NOT NULL,
    milestone_id INTEGER REFERENCES milestones (id), duplicate_of INTEGER REFERENCES issues (id),
    created TEXT NOT NULL);
CREATE TABLE issue_labels (
    issue_id INTEGER NOT NULL REFERENCES issues (id), label_id INTEGER NOT NULL REFERENCES labels (id),
    PRIMARY KEY (issue_id, label_id));
CREATE TABLE comments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, issue_id INTEGER NOT NULL REFERENCES issues (id),
    author_id INTEGER NOT NULL REFERENCES users (id), text TEXT NOT NULL, date TEXT NOT NULL);
