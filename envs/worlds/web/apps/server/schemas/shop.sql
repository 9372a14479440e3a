CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL UNIQUE, password TEXT NOT NULL, name TEXT NOT NULL,
    email TEXT NOT NULL, newsletter INTEGER NOT NULL, contact TEXT NOT NULL);
CREATE TABLE categories (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE products (
    id INTEGER PRIMARY KEY AUTOINCREMENT, category_id INTEGER NOT NULL REFERENCES categories (id),
    name TEXT NOT NULL UNIQUE, brand TEXT NOT NULL, price INTEGER NOT NULL, stock INTEGER NOT NULL,
    colors TEXT NOT NULL, sizes TEXT NOT NULL, description TEXT NOT NULL);
CREATE TABLE reviews (
    id INTEGER PRIMARY KEY AUTOINCREMENT, product_id INTEGER NOT NULL REFERENCES products (id),
    user_id INTEGER NOT NULL REFERENCES users (id), rating INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
    date TEXT NOT NULL);
CREATE TABLE coupons (code TEXT PRIMARY KEY, percent INTEGER NOT NULL, minimum INTEGER NOT NULL);
CREATE TABLE addresses (
    id INTEGER PRIMARY KEY AUTOINCREMENT, user_id INTEGER NOT NULL REFERENCES users (id), label TEXT NOT NULL,
    recipient TEXT NOT NULL, street TEXT NOT NULL, city TEXT NOT NULL, postcode TEXT NOT NULL);
CREATE TABLE cart_lines (
    user_id INTEGER NOT NULL REFERENCES users (id), product_id INTEGER NOT NULL REFERENCES products (id),
    color TEXT NOT NULL, size TEXT NOT NULL, quantity INTEGER NOT NULL,
    PRIMARY KEY (user_id, product_id, color, size));
CREATE TABLE cart_coupons (
    user_id INTEGER PRIMARY KEY REFERENCES users (id), code TEXT NOT NULL REFERENCES coupons (code));
CREATE TABLE wishes (
    user_id INTEGER NOT NULL REFERENCES users (id), product_id INTEGER NOT NULL REFERENCES products (id),
    PRIMARY KEY (user_id, product_id));
CREATE TABLE orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT, user_id INTEGER NOT NULL REFERENCES users (id), date TEXT NOT NULL,
    status TEXT NOT NULL, recipient TEXT NOT NULL, street TEXT NOT NULL, city TEXT NOT NULL, postcode TEXT NOT NULL,
    delivery TEXT NOT NULL, coupon TEXT NOT NULL, note TEXT NOT NULL, total INTEGER NOT NULL);
CREATE TABLE order_lines (
    order_id INTEGER NOT NULL REFERENCES orders (id), product_id INTEGER NOT NULL REFERENCES products (id),
    color TEXT NOT NULL, size TEXT NOT NULL, quantity INTEGER NOT NULL, price INTEGER NOT NULL,
    PRIMARY KEY (order_id, product_id, color, size));
CREATE TABLE returns (
    id INTEGER PRIMARY KEY AUTOINCREMENT, order_id INTEGER NOT NULL REFERENCES orders (id),
    product_id INTEGER NOT NULL REFERENCES products (id), reason TEXT NOT NULL, refund TEXT NOT NULL,
    date TEXT NOT NULL);
